/** The frame: the head with the ways, the sessions at the side, and the view that was chosen. */

import { useEffect } from "preact/hooks";
import { signedIn } from "./api/http";
import { connection } from "./api/socket";
import { SessionView } from "./conversation/session-view";
import { Journal } from "./looking/journal";
import { Machines } from "./looking/machines";
import { Overview } from "./looking/overview";
import { Policy } from "./looking/policy";
import { Settings } from "./looking/settings";
import { go, link, route, type Route } from "./routes";
import { Inbox } from "./sessions/inbox";
import { NewSession } from "./sessions/new-session";
import { Sidebar } from "./sessions/sidebar";
import { SignIn } from "./sign-in";
import { followSessions, leaveSessions } from "./state/sessions";
import { ForkDialog } from "./steering/fork-dialog";
import { Attention } from "./ui/attention";
import { DeviceLinkDialog } from "./ui/device-link";
import { Help } from "./ui/help";
import { Menu } from "./ui/menu";
import { PageMenu } from "./ui/page-menu";
import { Palette } from "./ui/palette";
import { toastError, Toasts } from "./ui/toasts";

export function App(props: { failed: string | null }) {
  if (!signedIn.value) return <SignIn failed={props.failed} />;
  return <SignedIn />;
}

function SignedIn() {
  useEffect(() => {
    followSessions().catch(toastError);
    return leaveSessions;
  }, []);
  return (
    <div class="shell" data-view={route.value.view}>
      <Head />
      <aside class="side" aria-label="Sessions">
        <Sidebar />
      </aside>
      <main id="main">
        <View to={route.value} />
      </main>
      <Palette />
      <Help />
      <DeviceLinkDialog />
      <Attention />
      <ForkDialog />
      <Toasts />
    </div>
  );
}

const WAYS: readonly [Route, string][] = [
  [{ view: "sessions" }, "Sessions"],
  [{ view: "overview" }, "Overview"],
  [{ view: "policy" }, "Policy"],
  [{ view: "machines" }, "Machines"],
  [{ view: "journal" }, "Journal"],
  [{ view: "settings" }, "Settings"],
];

function Head() {
  const at = route.value.view;
  return (
    <header class="head">
      <a class="name" href={link({ view: "sessions" })} aria-label="Pilothouse: all sessions">
        <img src="./icons/wheel.svg" alt="" />
        <span>Pilothouse</span>
      </a>
      {connection.value === "lost" && (
        <span class="lost" role="status">
          Connection lost, reconnecting…
        </span>
      )}
      <nav aria-label="Views">
        {WAYS.map(([to, name]) => (
          <a key={name} href={link(to)} aria-current={isAt(to.view, at) ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <span class="head-end">
        <PageMenu />
        <Menu
          label="Views"
          class="button plain narrow-only"
          align="right"
          face={<span aria-hidden="true">☰</span>}
          items={() => WAYS.map(([to, name]) => ({ name, isChosen: isAt(to.view, at), act: () => go(to) }))}
        />
      </span>
    </header>
  );
}

/** A session and the start of one belong to the sessions. */
function isAt(way: Route["view"], at: Route["view"]): boolean {
  return way === at || (way === "sessions" && (at === "session" || at === "new"));
}

function View(props: { to: Route }) {
  const { to } = props;
  switch (to.view) {
    case "sessions":
      return <Inbox />;
    case "session":
      return <SessionView key={to.id} id={to.id} item={to.item} />;
    case "new":
      return <NewSession />;
    case "overview":
      return <Overview />;
    case "policy":
      return <Policy />;
    case "machines":
      return <Machines />;
    case "journal":
      return <Journal key={to.session} session={to.session} />;
    case "settings":
      return <Settings />;
  }
}
