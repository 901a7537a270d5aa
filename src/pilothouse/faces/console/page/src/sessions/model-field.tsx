/** A model by name, with those that are known: what a running CLI offers, and what sessions use. */

import { useState } from "preact/hooks";
import { get, part } from "../api/http";
import { sessions } from "../state/sessions";
import { toastError } from "../ui/toasts";

export interface Offered {
  value: string;
  resolvedModel?: string;
  displayName?: string;
  description?: string;
}

const USUAL: readonly Offered[] = [{ value: "opus" }, { value: "sonnet" }, { value: "haiku" }];

/** The models that are known without asking a CLI: the usual ones, and those that sessions use. */
export function knownModels(offered: readonly Offered[] = USUAL): Offered[] {
  const used = sessions.value.flatMap((row): Offered[] => (row.model ? [{ value: row.model }] : []));
  return [...new Map([...used, ...offered].map((each) => [each.value, each])).values()];
}

export function ModelField(props: { id: string; value: string; onChange: (model: string) => void }) {
  const [offered, setOffered] = useState<readonly Offered[] | null>(null);
  // Only a CLI knows the models, and none is started for this.
  const ask = () => {
    const live = sessions.peek().find((row) => row.live && !row.foreign);
    if (offered || !live) return;
    setOffered([]);
    get<Offered[]>(`/api/sessions/${part(live.session_id)}/models`).then(setOffered, toastError);
  };
  const known = knownModels(offered?.length ? offered : USUAL);
  return (
    <>
      <input
        id={props.id}
        class="field"
        list={`${props.id}-list`}
        autocomplete="off"
        placeholder="The CLI's default"
        value={props.value}
        onFocus={ask}
        onInput={(event) => props.onChange(event.currentTarget.value)}
      />
      <datalist id={`${props.id}-list`}>
        {known
          .filter((each) => each.value !== "default")
          .map((each) => (
            <option key={each.value} value={each.value}>
              {each.description ?? each.displayName ?? ""}
            </option>
          ))}
      </datalist>
    </>
  );
}
