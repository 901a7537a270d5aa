/** The policy's text to work on: tried on the past before it counts. */

import { useEffect, useRef, useState } from "preact/hooks";
import { post, put } from "../api/http";
import type { DryRun, PolicyReport } from "../api/types";
import { CopyButton } from "../ui/copy";
import { useKeys } from "../ui/keys";
import { toast, toastError } from "../ui/toasts";
import { Confirm } from "./confirm";
import { DryRunReport } from "./dry-run";
import { LinedText, selectLines } from "./lined-text";
import { Panel } from "./page";
import { discard, draft, edit } from "./policy-draft";
import type { Proposal } from "./rule-proposal";

interface EditorProps {
  report: PolicyReport;
  proposal: Proposal | null;
  again: () => void;
}

export function PolicyEditor(props: EditorProps) {
  const { report, proposal } = props;
  const file = report.text ?? "";
  const text = draft.value?.text ?? file;
  const field = useRef<HTMLTextAreaElement>(null);
  const [isDiscarding, setDiscarding] = useState(false);
  const trial = useTrial();
  const saving = useSaving(props);
  const run = () => trial.run(text);
  useKeys("Policy", [{ press: "ctrl+Enter", does: "Try the text on the past", act: run, inFields: true }]);
  useEffect(() => {
    if (!proposal) return;
    selectLines(field.current, proposal.line, proposal.lines);
    trial.run(proposal.text);
  }, [proposal]);
  return (
    <Panel title="Editor" tools={draft.value && <span class="badge ask">changed, not saved</span>}>
      {proposal && (
        <p class="look-hint">
          The rule <strong>{proposal.name}</strong> is new, in line {proposal.line + 1}. It fits this one question;
          widen it if you like.
        </p>
      )}
      {draft.value && draft.value.base !== file && (
        <p class="look-hint">The file has changed since you began. Your text is not built on what it says now.</p>
      )}
      <LinedText label="Text of the policy" value={text} field={field} onInput={(value) => edit(value, file)} />
      <div class="row wrap">
        <button class="button main" disabled={trial.isBusy} onClick={run}>
          Try on the past <kbd>ctrl ⏎</kbd>
        </button>
        <button class="button" disabled={saving.isBusy || !draft.value} onClick={saving.save}>
          Save
        </button>
        <CopyButton class="button" label="Copy the text" text={text} />
        {draft.value && (
          <button class="button plain" onClick={() => setDiscarding(true)}>
            Discard changes
          </button>
        )}
      </div>
      {trial.problem && <Wrong problem={trial.problem} goTo={(line) => selectLines(field.current, line - 1, 1)} />}
      {isDiscarding && (
        <Confirm title="Discard your changes?" action="Discard" act={discard} onClose={() => setDiscarding(false)}>
          The editor shows the file as it is again.
        </Confirm>
      )}
      {trial.result && <DryRunReport result={trial.result} isOld={trial.tried !== text} />}
    </Panel>
  );
}

/** What is wrong with the text, and the way to the place. */
function Wrong(props: { problem: Error; goTo: (line: number) => void }) {
  const line = Number(/:(\d+)(?::\d+)?: /.exec(props.problem.message)?.[1]);
  return (
    <div class="look-trouble" role="alert">
      <span class="grow">{props.problem.message}</span>
      {line > 0 && (
        <button class="button" onClick={() => props.goTo(line)}>
          Go to line {line}
        </button>
      )}
    </div>
  );
}

function useTrial() {
  const [result, setResult] = useState<DryRun | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [tried, setTried] = useState("");
  const run = (text: string) => {
    if (isBusy) return;
    setBusy(true);
    post<DryRun>("/api/policy/dry-run", { text })
      .then((come) => {
        setResult(come);
        setProblem(null);
        setTried(text);
      })
      .catch((error: Error) => {
        setResult(null);
        setProblem(error);
      })
      .finally(() => setBusy(false));
  };
  return { result, problem, isBusy, tried, run };
}

/** The draft becomes the file, unless somebody else has changed that meanwhile. */
function useSaving(props: EditorProps) {
  const [isBusy, setBusy] = useState(false);
  const save = () => {
    const kept = draft.peek();
    if (!kept) return;
    setBusy(true);
    // Of a file that cannot be used only the last good text is known: there is nothing to compare with.
    const replaces = props.report.error ? null : kept.base;
    put("/api/policy", { text: kept.text, replaces })
      .then(() => {
        toast("The policy is saved and in force.");
        discard();
        props.again();
      })
      .catch(toastError)
      .finally(() => setBusy(false));
  };
  return { isBusy, save };
}
