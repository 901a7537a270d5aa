/** Take files back to where they were at a prompt: choose it, see what would change, then do it. */

import { useEffect, useState } from "preact/hooks";
import { get, part, post } from "../api/http";
import type { ConversationPage, PromptItem, Rewound, Status } from "../api/types";
import { useLoaded } from "../ui/load";
import { clockTime, dateTime } from "../ui/time";
import { toast, toastError } from "../ui/toasts";
import { Failure, LoadState, PanelDialog, StartFirst } from "./panel-dialog";

const PAGE = 500;

interface Prompts {
  prompts: PromptItem[];
  /** The item before which to read on; null at the beginning. */
  before: string | null;
}

export function RewindDialog(props: { id: string; status: Status; prompt?: string; onClose: () => void }) {
  const { id } = props;
  const loaded = useLoaded(() => readPrompts(id), []);
  const [chosen, setChosen] = useState<string | null>(props.prompt ?? null);
  const more = () => {
    const known = loaded.value;
    if (!known?.before) return;
    readPrompts(id, known.before)
      .then((next) => loaded.set({ prompts: [...known.prompts, ...next.prompts], before: next.before }))
      .catch(toastError);
  };
  return (
    <PanelDialog title="Rewind files" onClose={props.onClose} class="wide">
      <p class="quiet">Files that the session changed go back to where they were before the prompt. The conversation stays.</p>
      <LoadState of={loaded} />
      {loaded.value && !loaded.value.prompts.length && <p>There is no prompt to go back to.</p>}
      {loaded.value && (
        <ul class="choice-list" aria-label="Prompts, the newest first">
          {loaded.value.prompts.map((each) => (
            <li key={each.id}>
              <label class={chosen === each.id ? "choice chosen" : "choice"}>
                <input type="radio" name="prompt" checked={chosen === each.id} onChange={() => setChosen(each.id)} />
                <span class="grow cut">{each.text || "(image)"}</span>
                {each.at !== undefined && (
                  <span class="faint small" title={dateTime(each.at)}>
                    {clockTime(each.at)}
                  </span>
                )}
              </label>
            </li>
          ))}
        </ul>
      )}
      {loaded.value?.before && (
        <button class="button plain" onClick={more}>
          Look further back
        </button>
      )}
      {chosen && <Preview key={chosen} id={id} status={props.status} prompt={chosen} onDone={props.onClose} />}
    </PanelDialog>
  );
}

async function readPrompts(id: string, before?: string): Promise<Prompts> {
  const page = await get<ConversationPage>(`/api/sessions/${part(id)}/conversation`, { limit: PAGE, before });
  const prompts = page.items.filter(
    (item): item is PromptItem => item.kind === "prompt" && !item.agent && (item.state ?? "taken") === "taken" && item.by !== "cli",
  );
  return { prompts: prompts.reverse(), before: page.earlier ? (page.items[0]?.id ?? null) : null };
}

function Preview(props: { id: string; status: Status; prompt: string; onDone: () => void }) {
  const path = `/api/sessions/${part(props.id)}/rewind`;
  const loaded = useLoaded(() => post<Rewound>(path, { prompt_id: props.prompt, preview: true }), [], { isAtOnce: props.status.live });
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Error | null>(null);
  const rewind = async () => {
    setBusy(true);
    try {
      const done = await post<Rewound>(path, { prompt_id: props.prompt });
      if (!done.done) throw new Error(done.reason ?? "The files were not taken back");
      toast("The files are as they were before the prompt.");
      props.onDone();
    } catch (error) {
      setFailed(error as Error);
      setBusy(false);
    }
  };
  const found = loaded.value;
  const files = found?.files ?? [];
  useEffect(() => document.querySelector(".rewind-preview")?.scrollIntoView({ block: "nearest" }), [found]);
  return (
    <div class="rewind-preview">
      <StartFirst of={loaded} status={props.status} words="Start its CLI, and see what would change" />
      <LoadState of={loaded} words="Asking what would change…" />
      {found && !found.possible && <p class="wrong">{found.reason ?? "There is no way back to this prompt."}</p>}
      {found?.possible && !files.length && <p>No file has changed since.</p>}
      {found?.possible && files.length > 0 && (
        <>
          <h3>
            {files.length === 1 ? "1 file" : `${files.length} files`} would change: <span class="added">+{found.insertions ?? 0}</span>{" "}
            <span class="removed">−{found.deletions ?? 0}</span> lines
          </h3>
          <ul class="plain-list mono">
            {files.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
          <Failure error={failed} />
          <div class="row dialog-ways">
            <button class="button danger" disabled={isBusy} onClick={() => void rewind()}>
              Take {files.length === 1 ? "this file" : "these files"} back
            </button>
          </div>
        </>
      )}
    </div>
  );
}
