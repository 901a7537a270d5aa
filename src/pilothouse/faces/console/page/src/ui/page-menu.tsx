/** The menu of the page itself: what to be told of, light or dark, keys, and the ways out. */

import { SingleKeysSwitch } from "./browser-choices";
import { openDeviceLink } from "./device-link";
import { openHelp } from "./help";
import { Popover } from "./menu";
import { KINDS, want, wanted, type Kind, type Wanted } from "./notices";
import { openPalette } from "./palette";
import { useSignOut } from "./sign-out";
import { setTheme, theme, THEMES } from "./theme";
import { toast, toastError } from "./toasts";

export function PageMenu() {
  return (
    <Popover
      label="Notifications, theme, sign out"
      class="button plain"
      panelClass="page-menu"
      align="right"
      face={
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M8 2a3.5 3.5 0 0 0-3.5 3.5c0 3.5-1.5 4.5-1.5 5.5h10c0-1-1.5-2-1.5-5.5A3.5 3.5 0 0 0 8 2zM6.5 13h3" />
        </svg>
      }
    >
      {(close) => <Content close={close} />}
    </Popover>
  );
}

function Content(props: { close: () => void }) {
  const { isBusy, signOut } = useSignOut();
  const open = (what: () => void) => () => {
    props.close();
    what();
  };
  return (
    <>
      <Notices />
      <hr />
      <fieldset class="themes">
        <legend class="menu-heading">Theme</legend>
        {THEMES.map(([value, name]) => (
          <label key={value} class="row check">
            <input type="radio" name="theme" checked={theme.value === value} onChange={() => setTheme(value)} />
            {name}
          </label>
        ))}
      </fieldset>
      <hr />
      <SingleKeysSwitch />
      <hr />
      <button class="menu-item" onClick={open(openDeviceLink)}>
        <span>
          Another device
          <span class="menu-note">A link and a code to sign in a phone with</span>
        </span>
      </button>
      <button class="menu-item" onClick={open(openPalette)}>
        <span class="grow">Find anything</span> <kbd>Ctrl K</kbd>
      </button>
      <button class="menu-item" onClick={open(openHelp)}>
        <span class="grow">Keys</span> <kbd>?</kbd>
      </button>
      <hr />
      <button class="menu-item" disabled={isBusy} onClick={() => signOut(false)}>
        Sign out
      </button>
      <button class="menu-item danger" disabled={isBusy} onClick={() => signOut(true)}>
        <span>
          Sign out everywhere
          <span class="menu-note">Every browser needs a new link then</span>
        </span>
      </button>
    </>
  );
}

function Notices() {
  return (
    <table class="notices">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Notify</th>
          <th scope="col">Sound</th>
        </tr>
      </thead>
      <tbody>
        {KINDS.map(([kind, name]) => (
          <tr key={kind}>
            <th scope="row">{name}</th>
            <td>
              <Switch kind={kind} what="notify" label={`${name}: notify`} />
            </td>
            <td>
              <Switch kind={kind} what="sound" label={`${name}: sound`} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Switch(props: { kind: Kind; what: keyof Wanted; label: string }) {
  const { kind, what } = props;
  const change = (event: Event & { currentTarget: HTMLInputElement }) => {
    const box = event.currentTarget;
    want(kind, what, box.checked)
      .then((isAllowed) => {
        if (isAllowed) return;
        box.checked = false;
        toast("The browser does not allow notifications for this page. Its settings for the site can.", true);
      })
      .catch(toastError);
  };
  return <input type="checkbox" aria-label={props.label} checked={wanted.value[kind][what]} onChange={change} />;
}
