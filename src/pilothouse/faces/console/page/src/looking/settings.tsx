/** Every setting as it is, and where its value comes from; how the server is; what this browser remembers. */

import { useState } from "preact/hooks";
import { get } from "../api/http";
import type { Health } from "../api/types";
import { OwnNameField, SingleKeysSwitch } from "../ui/browser-choices";
import { useSignOut } from "../ui/sign-out";
import { setTheme, theme, THEMES } from "../ui/theme";
import { amount, dateTime, now, span } from "../ui/time";
import { readHealth } from "./health";
import { useEvery, useLoaded } from "../ui/load";
import { Figure, Page, Panel, Pending } from "./page";
import { GROUPS, shownValue, wordsOf, type Setting } from "./setting-words";

const REFRESH_MS = 10_000;

type SettingsByName = Record<string, Omit<Setting, "name">>;

function named(settings: SettingsByName): Setting[] {
  return Object.entries(settings).map(([name, each]) => ({ name, ...each }));
}

export function Settings() {
  const health = useLoaded(readHealth, []);
  const settings = useLoaded((abort) => get<SettingsByName>("/api/settings", {}, abort), []);
  useEvery(REFRESH_MS, health.again);
  return (
    <Page title="Settings">
      <Pending of={health} />
      {health.value && <Server health={health.value} />}
      <Browser />
      <Pending of={settings} />
      {settings.value && <Groups settings={named(settings.value)} />}
    </Page>
  );
}

function Server(props: { health: Health }) {
  const { health } = props;
  const troubles = [health.problem, health.policy_error, health.lack].filter(Boolean);
  return (
    <>
      {troubles.map((each) => (
        <p key={each} class="look-trouble">
          {each}
        </p>
      ))}
      <section class="look-figures" aria-label="Server">
        <Figure name="Server" value={health.ok ? "In order" : "In trouble"}>
          Pilothouse {health.version}
          {health.simulated && ", simulated"}
        </Figure>
        <Figure name="Running for" value={span(now.value - health.started_at)}>
          since {dateTime(health.started_at)}
        </Figure>
        <Figure name="Running CLIs" value={health.live}>
          of {amount(health.sessions)} sessions
        </Figure>
        <Figure name="Cursor of the journal" value={health.cursor.toLocaleString()}>
          <a href="/openapi.json" target="_blank" rel="noopener">
            OpenAPI document
          </a>
        </Figure>
      </section>
    </>
  );
}

function Browser() {
  const { isBusy, signOut } = useSignOut();
  return (
    <Panel title="This browser">
      <div class="row wrap look-between">
        <div class="look-choice" role="group" aria-label="Colours">
          {THEMES.map(([each, name]) => (
            <button key={each} class="button" aria-pressed={theme.value === each} onClick={() => setTheme(each)}>
              {name}
            </button>
          ))}
        </div>
        <OwnNameField />
        <SingleKeysSwitch />
        <div class="row wrap">
          <button class="button" disabled={isBusy} onClick={() => signOut(false)}>
            Sign out
          </button>
          <button class="button" disabled={isBusy} onClick={() => signOut(true)}>
            Sign out everywhere
          </button>
        </div>
      </div>
    </Panel>
  );
}

function Groups(props: { settings: readonly Setting[] }) {
  const [wanted, setWanted] = useState("");
  const [onlyOwn, setOnlyOwn] = useState(false);
  const fits = (each: Setting) => {
    const words = `${each.name} ${each.source} ${wordsOf(each.name)} ${shownValue(each)}`;
    return (!onlyOwn || each.source !== "default") && words.toLowerCase().includes(wanted.trim().toLowerCase());
  };
  const shown = props.settings.filter(fits);
  return (
    <Panel title="Settings of the server">
      <p class="small quiet">
        They are read when the server starts. A file, the environment and flags give values; the later one
        wins.
      </p>
      <div class="row wrap">
        <input
          class="field look-search"
          type="search"
          placeholder="Search settings"
          aria-label="Search settings"
          value={wanted}
          onInput={(event) => setWanted(event.currentTarget.value)}
        />
        <label class="row look-check">
          <input type="checkbox" checked={onlyOwn} onChange={(event) => setOnlyOwn(event.currentTarget.checked)} />
          Only those that are not the default
        </label>
      </div>
      {GROUPS.map(([group, isIn]) => (
        <Group key={group} name={group} settings={shown.filter((each) => isIn(each.name))} />
      ))}
      {!shown.length && <p class="faint">No setting fits.</p>}
    </Panel>
  );
}

function Group(props: { name: string; settings: readonly Setting[] }) {
  if (!props.settings.length) return null;
  return (
    <section aria-label={props.name}>
      <h3 class="look-group-name">{props.name}</h3>
      <ul class="look-settings">
        {props.settings.map((each) => (
          <li key={each.name}>
            <div>
              <code>{each.name}</code>
              <p class="small quiet">{wordsOf(each.name)}</p>
            </div>
            <div class="mono look-anywhere">{shownValue(each)}</div>
            <div class="look-source">
              <span class={each.source === "default" ? "small faint" : "badge busy look-anywhere"}>{each.source}</span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
