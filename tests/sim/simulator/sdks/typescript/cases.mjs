// What users of the official TypeScript SDK do: `node cases.mjs CASE CLI CWD`. Every line on stdout
// is JSON: {"message": ...} for what the SDK yields, and notes of what its callbacks were given.

import {
  createSdkMcpServer,
  getSessionMessages,
  listSessions,
  query,
  tool,
} from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const [name, pathToClaudeCodeExecutable, cwd] = process.argv.slice(2);

const note = (entry) => console.log(JSON.stringify(entry));

const options = (given) => ({
  pathToClaudeCodeExecutable,
  cwd,
  stderr: (text) => note({ stderr: text }),
  ...given,
});

/** Prompts that are said one after the other, while the conversation goes on. */
class Prompts {
  #waiting = [];
  #wake = () => {};
  #closed = false;

  say(words) {
    const message = { role: "user", content: words };
    this.#waiting.push({ type: "user", message, parent_tool_use_id: null });
    this.#wake();
  }

  close() {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    while (true) {
      while (this.#waiting.length) yield this.#waiting.shift();
      if (this.#closed) return;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }
}

/** Takes steps in turn: a string is a prompt and lasts until its result, a function is called. */
async function converse(steps, given = {}, watch = () => {}) {
  const prompts = new Prompts();
  const talk = query({ prompt: prompts, options: options(given) });
  const proceed = async () => {
    while (steps.length) {
      const step = steps.shift();
      if (typeof step === "string") return prompts.say(step);
      await step(talk);
    }
    prompts.close();
  };
  await proceed();
  for await (const message of talk) {
    note({ message });
    await watch(message, talk);
    if (message.type === "result") await proceed();
  }
}

/** Asks once, with nothing but a string; returns the session's id. */
async function askOnce(prompt, given = {}) {
  let session;
  for await (const message of query({ prompt, options: options(given) })) {
    note({ message });
    session = message.session_id;
  }
  return session;
}

/** A permission callback that notes what it is asked. */
const asked = (answer) => async (toolName, input, { suggestions, toolUseID, signal }) => {
  note({ asked: toolName, input, suggestions, toolUseID, aborted: signal.aborted });
  return answer(input, toolName);
};

const allow = asked((input) => ({ behavior: "allow", updatedInput: input }));
const deny = asked(() => ({ behavior: "deny", message: "Not on my watch." }));

const hook = (answer) => async (input, toolUseID, { signal }) => {
  note({ hook: input.hook_event_name, input, toolUseID, aborted: signal.aborted });
  return answer(input) ?? {};
};

function preToolUse({ tool_input }) {
  const permissionDecision = tool_input.command === "touch good" ? "allow" : "deny";
  return {
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision,
      permissionDecisionReason: "The harbour master says so.",
    },
  };
}

function postToolUse() {
  const additionalContext = "The tide is high.";
  return { hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext } };
}

const isText = (message) =>
  message.type === "stream_event" && message.event.delta?.type === "text_delta";

const add = tool("add", "Adds two numbers.", { a: z.number(), b: z.number() }, async (given) => {
  note({ called: given });
  return { content: [{ type: "text", text: String(given.a + given.b) }] };
});

const cases = {
  query: () => askOnce("Say hello."),

  deltas: () => askOnce("Say hello.", { includePartialMessages: true }),

  turns: () => converse(["Remember seven.", "Which number?"]),

  allow: () =>
    converse(["Make a file."], {
      canUseTool: asked((input) => ({
        behavior: "allow",
        updatedInput: { ...input, command: "touch other" },
      })),
    }),

  deny: () => converse(["Make a file."], { canUseTool: deny }),

  allowOnce: () => askOnce("Make a file.", { canUseTool: allow }),

  hooks: () =>
    converse(["Make files."], {
      hooks: {
        UserPromptSubmit: [{ hooks: [hook(() => {})] }],
        PreToolUse: [{ matcher: "Bash", hooks: [hook(preToolUse)] }],
        PostToolUse: [{ matcher: "Bash", hooks: [hook(postToolUse)] }],
        Stop: [{ hooks: [hook(() => {})] }],
      },
    }),

  tool: () =>
    converse(["Add them.", async (talk) => note({ status: await talk.mcpServerStatus() })], {
      mcpServers: { ship: createSdkMcpServer({ name: "ship", tools: [add] }) },
      allowedTools: ["mcp__ship__add"],
    }),

  interrupt: () => {
    let interrupted = false;
    return converse(
      ["Tell a story.", "Are you there?"],
      { includePartialMessages: true },
      async (message, talk) => {
        if (interrupted || !isText(message)) return;
        interrupted = true;
        await talk.interrupt();
      },
    );
  },

  model: () =>
    converse(["Hi.", (talk) => talk.setModel("claude-opus-4-5"), "And now?"], {
      model: "claude-sonnet-4-5",
    }),

  mode: () =>
    converse(["Write it.", (talk) => talk.setPermissionMode("acceptEdits"), "Write it."], {
      canUseTool: deny,
    }),

  question: () =>
    converse(["Paint it."], {
      canUseTool: asked((input) => ({
        behavior: "allow",
        updatedInput: { ...input, answers: { "Which colour?": "Blue" } },
      })),
    }),

  plan: () => converse(["Plan it."], { permissionMode: "plan", canUseTool: allow }),

  refusedPlan: () =>
    converse(["Plan it.", "And?"], { permissionMode: "plan", canUseTool: deny }),

  resume: async () => {
    const resume = await askOnce("Remember seven.");
    await askOnce("Which number?", { resume });
  },

  fork: async () => {
    const resume = await askOnce("Remember seven.");
    await askOnce("Which number?", { resume, forkSession: true });
  },

  sessions: async () => {
    const own = await askOnce("Remember seven.");
    note({ sessions: await listSessions({ dir: cwd }) });
    note({ stored: await getSessionMessages(own, { dir: cwd }) });
  },

  told: () =>
    converse([
      async (talk) => note({ commands: await talk.supportedCommands() }),
      async (talk) => note({ models: await talk.supportedModels() }),
      "Hi.",
    ]),
};

await cases[name]();
