/** The rules that answer before a person is asked: what they decided, and a place to try others. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { get, part } from "../api/http";
import type { Activity, PolicyReport, Question } from "../api/types";
import { dateTime } from "../ui/time";
import { toastError } from "../ui/toasts";
import { useEvery, useLoaded } from "../ui/load";
import { Page, Pending } from "./page";
import { draft, edit } from "./policy-draft";
import { PolicyEditor } from "./policy-editor";
import { PolicyRules } from "./policy-rules";
import { proposeRule, type Proposal } from "./rule-proposal";

/** Another view leaves the id of a question here, and comes to this one. */
const RULE_FROM = "pilothouse.rule-from";
const REFRESH_MS = 15_000;

export function Policy() {
  const report = useLoaded((abort) => get<PolicyReport>("/api/policy", {}, abort), []);
  const used = useLoaded((abort) => get<Activity>("/api/activity", {}, abort), []);
  const proposal = useProposal(report.value);
  const again = useCallback(() => (report.again(), used.again()), []);
  useEvery(REFRESH_MS, again);
  return (
    <Page title="Policy">
      <Pending of={report} />
      {report.value && <File report={report.value} />}
      {report.value && (
        <div class="look-policy">
          <PolicyRules text={report.value.text ?? ""} used={used} />
          <PolicyEditor report={report.value} proposal={proposal} again={report.again} />
        </div>
      )}
    </Page>
  );
}

function File(props: { report: PolicyReport }) {
  const { path, error, rules, loaded_at } = props.report;
  const some = `${rules} ${rules === 1 ? "rule is" : "rules are"} in force.`;
  const inForce = rules ? some : "No rules are in force: every question is asked.";
  return (
    <>
      <p class="quiet">
        {inForce} {path ? <code class="look-anywhere">{path}</code> : "There is no policy file."}
        {loaded_at ? <span class="faint"> read {dateTime(loaded_at)}</span> : null}
      </p>
      {error && (
        <p class="look-trouble" role="alert">
          The file as it is now cannot be used; the last good rules stay in force. {error}
        </p>
      )}
    </>
  );
}

/** The rule that a question asked for, put into the draft once the file is known. */
function useProposal(report: PolicyReport | null): Proposal | null {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const isReady = report !== null;
  useEffect(() => {
    const id = isReady && sessionStorage.getItem(RULE_FROM);
    if (!id) return;
    sessionStorage.removeItem(RULE_FROM);
    get<Question>(`/api/questions/${part(id)}`)
      .then((question) => {
        const file = report.text ?? "";
        const made = proposeRule(question, draft.peek()?.text ?? file);
        edit(made.text, file);
        setProposal(made);
      })
      .catch(toastError);
  }, [isReady]);
  return proposal;
}
