import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/conversation.css";
import "./style/questions.css";
import "./style/sessions.css";
import "./style/steering.css";
import "./style/looking.css";

import { render } from "preact";
import { App } from "./app";
import { enter, isLink } from "./sign-in";
import { listenToKeys } from "./ui/keys";
import { useTheme } from "./ui/theme";

useTheme();
listenToKeys();

const root = document.getElementById("app")!;

/** Each link that is opened begins the page anew. */
let entries = 0;

/** The page comes back by itself where the server was not there at the first look. */
async function begin(): Promise<void> {
  try {
    const failed = await enter();
    render(<App key={++entries} failed={failed} />, root);
  } catch {
    render(<p class="welcome">The server cannot be reached. Trying again…</p>, root);
    setTimeout(() => void begin(), 2000);
  }
}

// A link that is pasted where the page is open already changes what stands behind `#`, and loads nothing.
addEventListener("hashchange", () => isLink() && void begin());

void begin();
