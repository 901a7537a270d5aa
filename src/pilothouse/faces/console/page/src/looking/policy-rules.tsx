/** The rules in force, each with what it matches and how often it decided. */

import { useState } from "preact/hooks";
import type { Activity, RuleUse } from "../api/types";
import { escapeHidden } from "../ui/hidden";
import { now, span } from "../ui/time";
import type { Loaded } from "../ui/load";
import { Panel, Pending } from "./page";
import { rulesOf, type Rule } from "./rules";

/** So many values of a condition are shown without being asked for. */
const SHOWN = 6;

export function PolicyRules(props: { text: string; used: Loaded<Activity> }) {
  const rules = rulesOf(props.text);
  const used = props.used.value;
  const counts = used && new Map((used.rules ?? []).map((each) => [each.rule, each]));
  return (
    <Panel title="Rules in force">
      <Pending of={props.used} />
      {rules instanceof Error && <p class="quiet">The text cannot be shown rule by rule: {rules.message}.</p>}
      {!(rules instanceof Error) && <RuleList rules={rules} counts={counts} />}
      {counts && !(rules instanceof Error) && <Former rules={rules} counts={counts} />}
      {used && <Unmatched {...used} />}
    </Panel>
  );
}

function RuleList(props: { rules: readonly Rule[]; counts: Map<string, RuleUse> | null }) {
  if (!props.rules.length) return <p class="quiet">None. Write one in the editor and try it on past questions.</p>;
  return (
    <>
      <p class="small quiet">Tried in this order; the first that matches decides.</p>
      <ol class="look-rules">
        {props.rules.map((rule, at) => (
          <RuleRow
            key={`${at} ${rule.name}`}
            rule={rule}
            count={props.counts?.get(rule.name)}
            isCounted={props.counts !== null}
          />
        ))}
      </ol>
    </>
  );
}

function RuleRow(props: { rule: Rule; count: RuleUse | undefined; isCounted: boolean }) {
  const { rule, count } = props;
  return (
    <li class="look-rule">
      <div class="look-rule-head">
        <Verdict is={rule.action} />
        <strong class="grow look-anywhere">{escapeHidden(rule.name)}</strong>
        {props.isCounted && <Decided count={count} />}
      </div>
      <dl class="look-rule-conditions">
        {rule.conditions.map(([member, values]) => (
          <Condition key={member} member={member} values={values} />
        ))}
      </dl>
      {rule.reason && <p class="small quiet look-anywhere">Says: {escapeHidden(rule.reason)}</p>}
    </li>
  );
}

function Condition(props: { member: string; values: readonly string[] }) {
  const [isOpen, open] = useState(false);
  const shown = isOpen ? props.values : props.values.slice(0, SHOWN);
  return (
    <div>
      <dt>{props.member}</dt>
      <dd>
        {shown.map((value, at) => (
          <code key={at}>{escapeHidden(value)}</code>
        ))}
        {props.values.length > shown.length && (
          <button class="button plain small" onClick={() => open(true)}>
            {props.values.length - shown.length} more
          </button>
        )}
      </dd>
    </div>
  );
}

function Decided(props: { count: RuleUse | undefined }) {
  const { count } = props;
  if (!count) return <span class="small faint look-nowrap">never used</span>;
  const did = [
    count.answered && `answered ${count.answered.toLocaleString()}`,
    count.asked && `asked ${count.asked.toLocaleString()}`,
  ];
  return (
    <span class="small quiet look-nowrap">
      {did.filter(Boolean).join(", ")}, last {span(now.value - count.last)} ago
    </span>
  );
}

/** Rules that decided and are not in the file any more, at least not by that name. */
function Former(props: { rules: readonly Rule[]; counts: Map<string, RuleUse> }) {
  const known = new Set(props.rules.map((rule) => rule.name));
  const former = [...props.counts].filter(([name]) => !known.has(name)).sort((a, b) => b[1].last - a[1].last);
  if (!former.length) return null;
  return (
    <details class="look-former">
      <summary class="small quiet">
        {former.length} {former.length === 1 ? "rule" : "rules"} of earlier files decided, too
      </summary>
      <ul>
        {former.map(([name, count]) => (
          <li key={name} class="row small">
            <span class="grow look-anywhere">{name}</span>
            <Decided count={count} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function Unmatched({ asked = 0, answered_by_rules = 0, without_rule = 0 }: Activity) {
  const all = asked + answered_by_rules;
  if (!all) return null;
  return (
    <p class="small faint">
      {without_rule.toLocaleString()} of {all.toLocaleString()} {all === 1 ? "question" : "questions"} matched no rule
      and {without_rule === 1 ? "was" : "were"} asked.
    </p>
  );
}

const TONES: Record<string, string> = { allow: "good", deny: "bad", ask: "ask" };

/** What a policy says: allow, deny or ask. */
export function Verdict(props: { is: string }) {
  return <span class={`badge ${TONES[props.is] ?? ""}`}>{props.is || "no action"}</span>;
}
