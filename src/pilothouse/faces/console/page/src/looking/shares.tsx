/** Parts of a sum as a table with bars in it, the largest first. */

import { useState } from "preact/hooks";
import type { CostLine } from "../api/types";
import { amount, money } from "../ui/time";
import { Panel } from "./page";

const SHOWN = 8;

interface SharesProps {
  title: string;
  what: string;
  lines: readonly CostLine[];
  tokensOf: (line: CostLine) => number;
  /** Names are paths: their end tells more than their beginning. */
  isPath?: boolean;
}

export function Shares(props: SharesProps) {
  const [isOpen, open] = useState(false);
  const sorted = [...props.lines].sort((a, b) => b.usd - a.usd || props.tokensOf(b) - props.tokensOf(a));
  const most = Math.max(...sorted.map((line) => line.usd), Number.MIN_VALUE);
  const shown = isOpen ? sorted : sorted.slice(0, SHOWN);
  return (
    <Panel title={props.title}>
      {!sorted.length && <p class="faint">Nothing in this time.</p>}
      {sorted.length > 0 && (
        <table class="look-table look-shares">
          <thead>
            <tr>
              <th scope="col">{props.what}</th>
              <th scope="col" class="look-number">
                Cost
              </th>
              <th scope="col" class="look-number">
                Tokens
              </th>
              <th scope="col" class="look-number">
                Turns
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((line) => (
              <tr key={line.group}>
                <th scope="row" title={line.group}>
                  <span class="cut">{(props.isPath ? shortPath(line.group) : line.group) || "Unknown"}</span>
                  <svg class="look-share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                    <rect width="100" height="4" class="look-share-all" />
                    <rect width={(100 * line.usd) / most} height="4" class="look-share-own" />
                  </svg>
                </th>
                <td class="look-number">{money(line.usd)}</td>
                <td class="look-number">{amount(props.tokensOf(line))}</td>
                <td class="look-number">{line.turns.toLocaleString()}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {sorted.length > shown.length && (
        <button class="button plain small" onClick={() => open(true)}>
          Show {sorted.length - shown.length} more
        </button>
      )}
    </Panel>
  );
}

/** `…/work/boat` for `/home/me/work/boat`. */
function shortPath(path: string): string {
  const parts = (path ?? "").split("/").filter(Boolean);
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
}
