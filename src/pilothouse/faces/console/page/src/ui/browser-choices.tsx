/** What a person chooses for this browser alone: the name that others read, and whether single keys act. */

import { useId } from "preact/hooks";
import { singleKeys, setSingleKeys } from "./keys";
import { LONGEST_NAME, ownName, setOwnName } from "./own-name";

export function OwnNameField() {
  const id = useId();
  return (
    <div class="own-name">
      <label for={id} class="small">
        Your name
      </label>
      <input
        id={id}
        class="field"
        maxLength={LONGEST_NAME}
        autocomplete="nickname"
        placeholder="a person"
        defaultValue={ownName.peek()}
        aria-describedby={`${id}-note`}
        onChange={(event) => setOwnName(event.currentTarget.value)}
      />
      <span id={`${id}-note`} class="faint small">
        Others read it behind your answers
      </span>
    </div>
  );
}

export function SingleKeysSwitch() {
  return (
    <label class="row check single-keys">
      <input
        type="checkbox"
        checked={singleKeys.value}
        onChange={(event) => setSingleKeys(event.currentTarget.checked)}
      />
      <span>
        Single keys act
        <span class="menu-note">Off: only those with Ctrl, Enter and Escape do</span>
      </span>
    </label>
  );
}
