/** Mode, model and thinking of a session: what they are, and the choice of others. */

import { useState } from "preact/hooks";
import { get, part, put } from "../api/http";
import type { ModeSet, Status } from "../api/types";
import { knownModels, type Offered } from "../sessions/model-field";
import { modelName } from "../state/rows";
import { useLoaded } from "../ui/load";
import { Menu, MenuItems, Popover, type MenuItem } from "../ui/menu";
import { amount } from "../ui/time";
import { toast, toastError } from "../ui/toasts";
import { MODES, modeName, type Mode } from "./modes";
import { LoadState } from "./panel-dialog";
import { refreshStatus } from "./session-status";

interface PickerProps {
  id: string;
  status: Status;
}

/** Change one thing of a session; a second change waits for the first. */
function useChange(id: string) {
  const [isBusy, setBusy] = useState(false);
  const change = async <T,>(what: string, body: unknown): Promise<T | null> => {
    setBusy(true);
    try {
      return await put<T>(`/api/sessions/${part(id)}/${what}`, body);
    } catch (error) {
      toastError(error);
      return null;
    } finally {
      setBusy(false);
      refreshStatus(id);
    }
  };
  return { isBusy, change };
}

const HOW: Record<ModeSet["how"], string> = {
  in_place: "",
  at_next_start: " It counts from the next start of its CLI.",
  restarted: " Its CLI was started again for that.",
};

export function ModePicker(props: PickerProps) {
  const { id, status } = props;
  const { isBusy, change } = useChange(id);
  const choose = async (mode: Mode) => {
    const set = await change<ModeSet>("mode", { mode });
    if (set) toast(`Mode: ${modeName(set.mode)}.${HOW[set.how]}`);
  };
  return (
    <Menu
      label={`Permission mode: ${modeName(status.mode) || "as set up"}`}
      class={status.mode === "bypassPermissions" ? "button plain picker danger" : "button plain picker"}
      disabled={isBusy || status.foreign === true}
      face={<Face name={modeName(status.mode) || "Mode"} />}
      items={() =>
        MODES.map((each) => ({
          name: each.name,
          note: each.note,
          isChosen: each.mode === status.mode,
          isDanger: each.mode === "bypassPermissions",
          act: () => void choose(each.mode),
        }))
      }
    />
  );
}

export function ModelPicker(props: PickerProps) {
  const { id, status } = props;
  const { isBusy, change } = useChange(id);
  const choose = async (model: string | null, name: string) => {
    if (await change<Status>("model", { model })) toast(`Model: ${name}.`);
  };
  const name = status.model ? modelName(status.model) : "Model";
  return (
    <Popover
      label={`Model: ${status.model ?? "the CLI's default"}`}
      class="button plain picker"
      panelClass="menu"
      role="menu"
      disabled={isBusy || status.foreign === true}
      face={<Face name={name} />}
    >
      {(close) => <Models id={id} status={status} close={close} onChoose={(model, words) => void choose(model, words)} />}
    </Popover>
  );
}

interface ModelsProps extends PickerProps {
  close: () => void;
  onChoose: (model: string | null, name: string) => void;
}

/** Only a CLI knows them all, and looking at them starts none. */
function Models(props: ModelsProps) {
  const { id, status } = props;
  const loaded = useLoaded((abort) => get<Offered[]>(`/api/sessions/${part(id)}/models`, {}, abort), [], { isAtOnce: status.live });
  if (loaded.isLoading || loaded.error)
    return (
      <div class="menu-pending" role="presentation">
        <LoadState of={loaded} words={status.live ? "Asking its CLI…" : "Starting its CLI, which knows the models…"} />
      </div>
    );
  const known = loaded.value ?? [{ value: "default", displayName: "The CLI's default" }, ...knownModels()];
  const items = known.map((each): MenuItem => {
    const name = each.displayName ?? each.value;
    const isDefault = each.value === "default";
    return {
      name,
      note: each.description ?? "",
      isChosen: !isDefault && [each.value, each.resolvedModel].includes(status.model ?? ""),
      act: () => props.onChoose(isDefault ? null : each.value, name),
    };
  });
  return (
    <>
      <MenuItems items={items} close={props.close} />
      {!loaded.value && (
        <button type="button" class="menu-item" role="menuitem" onClick={loaded.again}>
          <span>
            Start its CLI, and ask it for others
            {status.source === "transcript" && (
              <span class="menu-note">End its claude in the terminal first, if one still runs</span>
            )}
          </span>
        </button>
      )}
    </>
  );
}

const THOUGHTS: readonly (readonly [number | null, string, string])[] = [
  [null, "As the CLI decides", ""],
  [0, "Off", "No thinking"],
  [4000, "Up to 4,000 tokens", "A short thought"],
  [16_000, "Up to 16,000 tokens", ""],
  [32_000, "Up to 32,000 tokens", "A long thought"],
];

function thoughtName(tokens: number | null): string {
  return THOUGHTS.find(([each]) => each === tokens)?.[1] ?? `Up to ${tokens?.toLocaleString("en")} tokens`;
}

export function ThinkingPicker(props: PickerProps) {
  const { isBusy, change } = useChange(props.id);
  const now = props.status.max_thinking_tokens ?? null;
  const isUsual = THOUGHTS.some(([tokens]) => tokens === now);
  const thoughts = isUsual ? THOUGHTS : [...THOUGHTS, [now, thoughtName(now), ""] as const];
  const choose = async (tokens: number | null, name: string) => {
    if (await change<Status>("thinking", { tokens })) toast(`Thinking: ${name.toLowerCase()}.`);
  };
  return (
    <Menu
      label={`Thinking: ${thoughtName(now)}`}
      class="button plain picker"
      disabled={isBusy || props.status.foreign === true}
      face={<Face name={now === null ? "Thinking" : now === 0 ? "No thinking" : `Thinking ≤ ${amount(now)}`} />}
      items={() => thoughts.map(([tokens, name, note]) => ({ name, note, isChosen: tokens === now, act: () => void choose(tokens, name) }))}
    />
  );
}

function Face(props: { name: string }) {
  return (
    <>
      {props.name} <span class="down-mark" aria-hidden="true" />
    </>
  );
}
