/** How a turn ended, in one line; what it cost in detail on demand. */

import type { ModelShare, TurnItem } from "../api/types";
import { Code } from "../ui/code";
import { amount, duration, money } from "../ui/time";
import type { CardProps } from "./item-card";
import { outlineOf } from "./outline";

const OUTCOMES = {
  finished: "Turn finished",
  interrupted: "Turn interrupted",
  failed: "Turn failed",
  cancelled: "Turn cancelled",
};

export function TurnLine(props: CardProps) {
  const item = props.item.value as TurnItem;
  const opening = outlineOf(props.conversation).opening(item.id);
  const isOpen = opening.value ?? false;
  const outcome = item.outcome ?? "finished";
  return (
    <div class="turn" data-outcome={outcome}>
      <button type="button" class="turn-head fold" aria-expanded={isOpen} onClick={() => (opening.value = !isOpen)}>
        <span class="turn-words">{[OUTCOMES[outcome], ...factsOf(item)].join(" · ")}</span>
      </button>
      {item.error && <p class="turn-error">{item.error}</p>}
      {item.structured_output != null && (
        <Code text={JSON.stringify(item.structured_output, null, 2)} language="json" />
      )}
      {isOpen && <TurnDetails item={item} />}
    </div>
  );
}

function factsOf(item: TurnItem): string[] {
  const tokens = item.tokens ?? {};
  const read = (tokens.input ?? 0) + (tokens.cache_read ?? 0) + (tokens.cache_write ?? 0);
  const denials = item.denials?.length ?? 0;
  return [
    (item.duration_ms ?? 0) >= 100 ? duration(item.duration_ms!) : "",
    item.cost_usd ? money(item.cost_usd) : "",
    read || tokens.output ? `${amount(read)} in, ${amount(tokens.output ?? 0)} out` : "",
    tokens.cache_read ? `${Math.round((tokens.cache_read / read) * 100)}% from cache` : "",
    denials ? `${denials} denied` : "",
  ].filter(Boolean);
}

function TurnDetails(props: { item: TurnItem }) {
  const { item } = props;
  const rows: [string, ModelShare][] = [...Object.entries(item.models ?? {}), ["This conversation", item]];
  return (
    <div class="turn-details">
      <div class="md-table" tabIndex={0} role="group" aria-label="Tokens and cost of this turn">
        <table>
          <thead>
            <tr>
              <th>Model</th>
              {["Input", "From cache", "To cache", "Output", "Cost"].map((name) => (
                <th key={name} data-align="right">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, share]) => (
              <Share key={name} name={name} share={share} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="small quiet">
        {duration(item.duration_ms ?? 0)} in all, {duration(item.api_ms ?? 0)} of it in the API, in {item.steps ?? 0}{" "}
        {item.steps === 1 ? "step" : "steps"}.{item.reason ? ` It ended with: ${item.reason.replaceAll("_", " ")}.` : ""}
      </p>
    </div>
  );
}

function Share(props: { name: string; share: ModelShare }) {
  const { tokens = {}, cost_usd: cost = 0 } = props.share;
  return (
    <tr>
      <td>{props.name}</td>
      {[tokens.input, tokens.cache_read, tokens.cache_write, tokens.output].map((count, at) => (
        <td key={at} data-align="right">
          {(count ?? 0).toLocaleString()}
        </td>
      ))}
      <td data-align="right">${cost.toFixed(4)}</td>
    </tr>
  );
}
