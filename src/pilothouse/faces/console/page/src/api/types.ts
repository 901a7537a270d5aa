// Made from the OpenAPI document by `python -m pilothouse.faces.console.api_types`.
// Members that a value may leave out have their default then.

/** What sessions did and people had to do, added up. */
export interface Activity {
  /** Those on which something happened. */
  days: ActivityDay[];
  /** Those that decided last come first; at most 1,000. */
  rules?: RuleUse[];
  /** Questions that people were asked. */
  asked?: number;
  answered_by_rules?: number;
  /** Questions that no rule was for. */
  without_rule?: number;
  /** Half of the answers of people took no longer; None where nobody has answered. */
  median_wait_ms?: number | null;
}

/** What happened on one day; the server's clock says when it begins. */
export interface ActivityDay {
  /** The date, as 2026-01-31. */
  day: string;
  /** Those that were started, in terminals too. */
  sessions?: number;
  /** Those that ended. */
  turns?: number;
  /** How long sessions waited for people. */
  waited_ms?: number;
  /** How long turns took, without the time in which they waited for people. */
  worked_ms?: number;
}

/** What happened since a moment; ten years back at most. */
export interface ActivityQuery {
  since?: number;
}

/** Let the session work in these directories: absolute paths. */
export interface AddOwnDirectories {
  type: "addDirectories";
  directories: string[];
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

/** Add rules. A destination other than `session` and `cliArg` writes a settings file. */
export interface AddOwnRules {
  type: "addRules";
  rules: OwnRule[];
  behavior?: "allow" | "ask" | "deny";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

/** The name under which a machine is let in. */
export interface AddRunner {
  name: string;
}

export interface AllStopped {
  /** Those that had a CLI, and have none now. */
  sessions: string[];
}

/** Yes, perhaps with an edited input, perhaps for good. */
export interface Allow {
  kind: "allow";
  input?: Record<string, unknown> | null;
  /** True: not asked again in this session. A destination writes the CLI's settings there. */
  always?: boolean | "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  /** Rules, directories or a mode of one's own, in force together with the answer. */
  updates?: (AddOwnRules | ReplaceOwnRules | RemoveOwnRules | AddOwnDirectories | RemoveOwnDirectories | SetOwnMode)[] | null;
}

export interface AnswerQuery {
  by?: string;
}

export interface Answered {
  question: Question;
  /** The state of the session. */
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  session_id: string;
  /** The CLI that had asked is gone: the decision was said to the session as a message. */
  resumed?: boolean;
  repeated?: boolean;
  /** The session that implements the plan, after `clear_context`. */
  new_session_id?: string | null;
}

/** Yes. `plan` replaces the plan's text; `mode` is the mode to work in, in the same moment. */
export interface ApprovePlan {
  kind: "approve_plan";
  mode?: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan" | null;
  plan?: string | null;
  /** Summarise the conversation as soon as the turn has ended, which only an engine can do. */
  compact?: boolean;
}

/** Whether a session is to be in the archive. */
export interface Archive {
  archived?: boolean;
}

/** What a CLI asks that is not the engine's: somebody else started it, with a permission tool. The asker repeats the request as long as it waits. When it stops, the question is withdrawn. */
export interface Ask {
  tool_name: string;
  /** With the session it names the ask: the same ask is the same question. */
  tool_use_id: string;
  input: Record<string, unknown>;
  cwd: string;
  /** The CLI's own id of its conversation, or one that whoever asks has made for it. */
  session_id: string;
  label?: string | null;
  /** How long to wait for an answer before the question is returned as it is. */
  wait_s?: number;
}

export interface Asked {
  question: Question;
  /** What the CLI is told, as its permission tool's result; None: nobody has answered yet. */
  response?: Record<string, unknown> | null;
}

/** Events in order, and where to go on. */
export interface Batch {
  events: Event[];
  cursor: number;
  gaps?: Gap[];
}

export interface Cancelled {
  prompt_id: string;
  /** False: it had left the queue. */
  cancelled: boolean;
}

/** Where spending stops: before the next turn once the sum is reached. */
export interface Caps {
  session_usd?: number | null;
}

/** The model's questions, and what was answered. */
export interface ChoiceView {
  view: "choice";
  answers?: Record<string, string>;
  cut?: number;
}

/** Answers to the model's questions: text of the question -> a label, labels, or free text. */
export interface Choose {
  kind: "choose";
  answers: Record<string, string | string[]>;
  notes?: Record<string, string>;
}

/** End this session, and let a new one that knows only the plan implement it. */
export interface ClearContext {
  kind: "clear_context";
  mode?: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan";
  plan?: string | null;
}

/** A shell command. `output` has both streams where the CLI does not tell them apart. */
export interface CommandView {
  view: "command";
  command: string;
  description?: string;
  output?: string;
  errors?: string;
  exit_code?: number | null;
  interrupted?: boolean;
  background?: boolean;
  cut?: number;
}

/** Summarise the conversation, perhaps with a word on what to keep. */
export interface Compact {
  instructions?: string | null;
}

/** The conversation before this is a summary from here on. */
export interface CompactionItem {
  kind: "compaction";
  state?: "done" | "failed" | "running";
  trigger?: string;
  tokens_before?: number | null;
  tokens_after?: number | null;
  duration_ms?: number | null;
  error?: string | null;
  summary?: string | null;
  cut?: number;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** A link that signs one browser in, once. */
export interface ConsoleLink {
  url: string;
  expires_at: number;
  /** Why the link leads to no console, where it does not. */
  warning?: string;
}

export interface ContextUsed {
  tokens: number;
  window?: number | null;
  percent?: number | null;
}

/** A control request of the CLI's protocol that is on the list of allowed ones. */
export interface ControlCall {
  subtype: string;
  fields?: Record<string, unknown>;
}

/** Items in order, as they are at the cursor. A search has hits instead, the newest first. */
export interface ConversationPage {
  items: (PromptItem | TextItem | ThinkingItem | ToolItem | QuestionItem | TurnItem | CompactionItem | RetryItem | LimitItem | SignInItem | HookItem | FilesItem | NoticeItem | GapItem)[];
  cursor: number;
  hits?: Hit[];
  /** There are items before these: ask for those `before` the id of the first. */
  earlier?: boolean;
  /** There are items behind these: ask for those `after` the id of the last. */
  later?: boolean;
}

/** What changed of a conversation up to the cursor, in the order in which to apply it. Members of an item that the reader does not have are of an earlier page: it leaves them. */
export interface ConversationPatches {
  cursor: number;
  patches: Patch[];
  /** The items that are still being written, where the server does not know what the reader has: any other that it has as `streaming` or `writing` is gone. */
  unfinished?: string[] | null;
}

/** Which items; with `search`, where these words stand in those before one, or in all. */
export interface ConversationQuery {
  search?: string;
  before?: string | null;
  after?: string | null;
  limit?: number;
}

export interface CostLine {
  group: string;
  usd: number;
  turns: number;
  tokens: Tokens;
}

export interface CostQuery {
  by?: "day" | "model" | "project" | "session" | "turn";
  session_id?: string | null;
  since?: number | null;
  limit?: number;
  before?: string | null;
}

export interface CostReport {
  by: "day" | "model" | "project" | "session" | "turn";
  lines: CostLine[];
  total_usd: number;
  today_usd: number;
  day_cap_usd?: number | null;
  /** How many lines there are before the first of these. */
  older?: number;
}

/** No to an MCP server's form or page. */
export interface Decline {
  kind: "decline";
}

/** No. The model reads the reason, or a usual one if it is empty; `stop` ends its turn. */
export interface Deny {
  kind: "deny";
  reason?: string;
  stop?: boolean;
}

/** A CLI that somebody is about to start by hand, and that becomes a session once it dials. */
export interface DialIn {
  cwd: string;
  mode?: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan" | null;
  model?: string | null;
  label?: string | null;
  caps?: Caps;
  /** What to say to it as soon as it is there. */
  prompt?: string | Record<string, unknown>[] | null;
  /** How long to wait for it. */
  expires_s?: number;
}

/** Where one CLI is expected. */
export interface DialInOpened {
  /** The session that it will be, once it has come. */
  session_id: string;
  /** What to give to `--sdk-url`. */
  url: string;
  /** Told this once. One CLI can come with it, in `CLAUDE_CODE_SESSION_ACCESS_TOKEN`. */
  token: string;
  /** A line for a shell that starts it. */
  command: string;
  expires_at: number;
  /** Why the CLI of this machine will not come: it is too new. */
  warning?: string | null;
}

/** A CLI that is expected, and has not come yet. */
export interface DialInWaiting {
  /** The session that it will be. */
  session_id: string;
  cwd: string;
  /** In milliseconds since the epoch. */
  expires_at: number;
  label?: string | null;
}

/** What a file changes by. */
export interface DiffView {
  view: "diff";
  path: string;
  hunks?: Hunk[];
  added?: number;
  removed?: number;
  is_new?: boolean;
  /** The lines are numbered as in the file. They are not before the tool has run. */
  is_numbered?: boolean;
  cut?: number;
}

export interface DirectoriesQuery {
  path: string;
}

/** Neither yes nor no: the form was closed. */
export interface Dismiss {
  kind: "dismiss";
}

/** What came of a request. */
export interface Done {
  type: "done";
  id: string | number;
  result: unknown;
}

export interface DryRun {
  examined: number;
  differ?: DryRunLine[];
  /** How many more differ: those that were asked before the first of these. */
  older?: number;
}

export interface DryRunLine {
  question_id: string;
  session_id: string;
  tool_name: string;
  title: string;
  before: string;
  after: string;
  before_rule?: string | null;
  after_rule?: string | null;
}

/** A policy file's text, to be tried on past questions. */
export interface DryRunText {
  text: string;
}

/** Whether an MCP server is in use. */
export interface Enable {
  enabled: boolean;
}

/** What a link is exchanged with. */
export interface EnterConsole {
  /** The part of the URL after `#enter=`. */
  code: string;
}

/** One entry of the journal. */
export interface Event {
  seq: number;
  session_id: string;
  /** `cli`, `partial`, `noise`, or a record of the engine's: see `records`. */
  kind: string;
  at: number;
  body: unknown;
  /** The line of the CLI's byte for byte, where it is one that not every reader of JSON takes and `body` is what every reader does; in base64. */
  raw?: string | null;
}

/** What happened, in order, and where to go on. */
export interface Events {
  type: "events";
  events: Event[];
  cursor: number;
  gaps?: Gap[];
}

export interface EventsQuery {
  after?: number;
  limit?: number;
  session_id?: string | null;
}

/** Why a request was not done; without an id, why the socket closes. */
export interface Failed {
  type: "failed";
  problem: Problem;
  id?: string | number | null;
}

/** What a call that is asked about would change in its file, as the file is now. */
export interface FileChange {
  diff?: DiffView | null;
  /** Why there is no diff, where that says something about the file. */
  because?: string;
}

/** A part of a file. */
export interface FileView {
  view: "file";
  path: string;
  text?: string;
  first_line?: number;
  total_lines?: number | null;
  cut?: number;
}

/** Files that were stored, or could not be. */
export interface FilesItem {
  kind: "files";
  files?: string[];
  failed?: Record<string, string>;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

export interface FilesQuery {
  query?: string;
}

/** The values a form of an MCP server asked for; empty where it asked to open a page. */
export interface Fill {
  kind: "fill";
  content?: Record<string, unknown>;
}

/** A new session that begins with this one's conversation. */
export interface Fork {
  prompt: string | Record<string, unknown>[];
  /** The uuid of the message to branch from; the end if left out. */
  at?: string | null;
  options?: SessionOptions | null;
  label?: string | null;
  key?: string | null;
}

/** Events that were there and are no more: `count` of them between the two cursors. After `damage` nobody knows how many: it is 0. So it is after `reset`: the cursor was of another journal, or of this one before a backup was put back, and `first` is where this one goes on. */
export interface Gap {
  first: number;
  last: number;
  count: number;
  reason: "damage" | "partials" | "reset" | "retention";
}

/** Something is missing here. */
export interface GapItem {
  kind: "gap";
  reason?: string;
  /** How many entries; 0 where nobody knows. */
  count?: number;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

export interface Health {
  ok: boolean;
  version: string;
  live: number;
  sessions: number;
  questions: number;
  cursor: number;
  simulated: boolean;
  started_at: number;
  problem?: string | null;
  /** What is wrong with the policy file as it is now; the last good rules stay in force. */
  policy_error?: string | null;
  /** Why sessions run on the simulator although nobody wanted that: no CLI, or not signed in. */
  lack?: string | null;
  /** How many of the sessions are in each state. */
  states?: Record<string, number>;
}

/** An item that has the words of a search. */
export interface Hit {
  id: string;
  kind: string;
  /** A piece of it, around the first place. */
  text: string;
  at?: number;
  agent?: string | null;
}

/** A hook of the user's settings. */
export interface HookItem {
  kind: "hook";
  name?: string;
  event?: string;
  state?: "done" | "running";
  outcome?: string;
  exit_code?: number | null;
  output?: string;
  cut?: number;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** Lines that change, with those around them; each begins with a blank, `-` or `+`. */
export interface Hunk {
  old_start?: number;
  new_start?: number;
  lines?: string[];
}

/** An image. Its bytes are in the entry. */
export interface ImageView {
  view: "image";
  path?: string;
  media_type?: string;
  /** Bytes. */
  size?: number;
  cut?: number;
}

export interface Interrupted {
  session_id: string;
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  was_running: boolean;
  still_queued?: string[];
}

export interface ItemQuery {
  item: string;
}

/** The lines that an item was made of. */
export interface ItemSource {
  item: PromptItem | TextItem | ThinkingItem | ToolItem | QuestionItem | TurnItem | CompactionItem | RetryItem | LimitItem | SignInItem | HookItem | FilesItem | NoticeItem | GapItem;
  /** The journal's: where it began, or where it was whole, and what has its result. */
  entries?: Event[];
  /** Those of Claude's own transcript, of what was said before the session was the engine's. */
  transcript?: unknown[];
}

/** Who is to be signed out. */
export interface LeaveConsole {
  /** Every browser, not this one alone. */
  everywhere?: boolean;
}

/** A rate limit of the account. */
export interface LimitItem {
  kind: "limit";
  status?: string;
  limit?: string | null;
  /** Milliseconds since the epoch. */
  resets_at?: number | null;
  utilization?: number | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

export interface ListQuery {
  cwd?: string | null;
  limit?: number;
  offset?: number;
}

/** One session in a list, ours or found on disk. */
export interface Listed {
  session_id: string;
  cwd: string | null;
  title: string;
  updated_at: number;
  /** None: no engine of ours has touched it. */
  state?: "active" | "awaiting_input" | "done" | "error" | "interrupted" | null;
  live?: boolean;
  machine?: string | null;
  label?: string | null;
  questions?: number;
  cost_usd?: number | null;
  tokens?: Tokens | null;
  model?: string | null;
  mode?: string | null;
  /** How full its context is. */
  context_percent?: number | null;
  /** When it came into its present state. */
  since?: number | null;
  waiting_on?: Waiting | null;
  /** What runs now, or else the last line that the model wrote; 200 characters of it. */
  last_line?: string | null;
  /** Why it is in `error` or was interrupted, and that a question has expired since the last message. */
  reason?: string | null;
  interactive?: boolean;
  /** Its CLI is not the engine's, and asks here. */
  foreign?: boolean;
  simulated?: boolean;
  /** False: it keeps no transcript, so it ends for good with its CLI. */
  resumable?: boolean;
  archived?: boolean;
  source?: "engine" | "transcript";
}

export interface Listing {
  sessions: Listed[];
  /** Files that could not be read, each with the reason. */
  unreadable?: string[];
  total?: number;
  /** The journal as far as this list knows it: `follow_sessions(after=cursor)` goes on from here. */
  cursor?: number;
}

/** A message of JSON-RPC that an MCP server would have sent to the CLI, a notification say. */
export interface McpMessage {
  message: Record<string, unknown>;
}

/** A tool of an MCP server. */
export interface McpView {
  view: "mcp";
  server: string;
  tool: string;
  text?: string;
  cut?: number;
}

/** The permission mode to work in. */
export interface ModeChange {
  mode: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan";
}

export interface ModeSet {
  session_id: string;
  mode: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan";
  how: "at_next_start" | "in_place" | "restarted";
}

/** The model to use; null for the CLI's default. */
export interface ModelChange {
  model: string | null;
}

/** What one model did in a turn. */
export interface ModelShare {
  cost_usd?: number;
  tokens?: Tokens;
}

/** What one model has used and cost. */
export interface ModelSpent {
  cost_usd?: number;
  tokens?: Tokens;
}

/** A line worth reading. */
export interface NoticeItem {
  kind: "notice";
  /** `output`: what a command of the CLI's own printed. `unknown`: a message of a kind that this version does not know; the entry has it. */
  level?: "error" | "info" | "output" | "unknown" | "warning";
  text?: string;
  /** A word for programs: what kind of notice it is. */
  tag?: string;
  cut?: number;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** One choice of a question of the model's. */
export interface Option {
  label: string;
  description?: string;
  preview?: string | null;
}

/** A tool, and what of it: `{"toolName": "Bash", "ruleContent": "git:*"}`. */
export interface OwnRule {
  toolName: string;
  ruleContent?: string | null;
}

/** One item's change: it is new, some of its members are others, a text grew, or it is gone. */
export interface Patch {
  id: string;
  /** All of it, where it is new to the reader. */
  item?: PromptItem | TextItem | ThinkingItem | ToolItem | QuestionItem | TurnItem | CompactionItem | RetryItem | LimitItem | SignInItem | HookItem | FilesItem | NoticeItem | GapItem | null;
  /** The members that changed, by name. */
  set?: Record<string, unknown>;
  /** What is added to its `text`, after `set`. */
  append?: string;
  /** It is gone; with `item`, it stands behind all others now. */
  removed?: boolean;
}

/** What changed of a conversation, in order, and where to go on. */
export interface Patches {
  type: "patches";
  patches: Patch[];
  cursor: number;
  unfinished?: string[] | null;
}

/** What fits what was typed of a path, best first. */
export interface Paths {
  paths: string[];
}

/** A plan; Markdown. */
export interface PlanView {
  view: "plan";
  plan: string;
  path?: string;
  cut?: number;
}

export interface PolicyReport {
  path: string | null;
  rules: number;
  /** What is wrong with the file as it is now; the last good one stays in force. */
  error?: string | null;
  loaded_at?: number | null;
  text?: string;
}

/** A policy file's text, to be written. */
export interface PolicyText {
  text: string;
  /** The text that it was made from. If the file has another one by now, nothing is written. */
  replaces?: string | null;
}

/** One of the model's questions. */
export interface Posed {
  question: string;
  header?: string;
  options?: Option[];
  multi_select?: boolean;
}

/** Why a request was not done, and what to do instead (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  advice: string;
  errors?: Wrong[];
  /** What the error carries besides its words. */
  about?: Record<string, unknown>;
  /** The question as it was settled. */
  question?: Question | null;
}

/** Something that was said to the session. */
export interface PromptItem {
  kind: "prompt";
  text?: string;
  images?: number;
  state?: "queued" | "sent" | "taken" | "withdrawn";
  /** `person`, `engine` for the statement of a decision, or `cli` for the CLI's own message. */
  by?: string;
  priority?: string | null;
  /** Why it was withdrawn, where nobody asked for that. */
  because?: string | null;
  cut?: number;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** That the server knows the token. */
export interface Proof {
  proof: string;
}

/** Something a session waits on a person for. What every face shows. */
export interface Question {
  id: string;
  session_id: string;
  kind: "elicitation" | "plan" | "questions" | "tool";
  state: "answered" | "expired" | "open" | "withdrawn";
  /** One line: what is asked. */
  title: string;
  /** What a person has to see to decide: the command, the diff, the plan. */
  text?: string;
  format?: "command" | "diff" | "markdown" | "text" | "url";
  tool_name?: string | null;
  tool_use_id?: string | null;
  agent_id?: string | null;
  input?: Record<string, unknown>;
  /** Why the CLI asks, in its own words. */
  reason?: string | null;
  /** What made it ask: `rule`, `mode`, `hook`, `workingDir`, `safetyCheck`, ... */
  reason_type?: string | null;
  /** The CLI's rule that says to ask. */
  matched_rule?: string | null;
  /** The path that is not open to the session. */
  blocked_path?: string | null;
  posed?: Posed[];
  plan?: string | null;
  plan_file?: string | null;
  allowed_prompts?: Record<string, unknown>[];
  server_name?: string | null;
  url?: string | null;
  schema?: Record<string, unknown> | null;
  ways?: Way[];
  /** Milliseconds since the epoch, as every time here. */
  opened_at?: number;
  closed_at?: number | null;
  expires_at?: number | null;
  answer?: Allow | Deny | Choose | Skip | ApprovePlan | RevisePlan | RejectPlan | ClearContext | Fill | Decline | Dismiss | null;
  /** `person`, `policy`, or the name a face gave. */
  answered_by?: string | null;
  /** The policy's rule that decided, or that said to ask. */
  rule?: string | null;
  closed_because?: string | null;
  /** It takes an answer: it is open, or its CLI died before anybody had answered. */
  decidable?: boolean;
  /** The CLI that asks is not the engine's. */
  foreign?: boolean;
  cwd?: string | null;
  label?: string | null;
  mode?: string | null;
}

/** What a person was asked. `answered_by` and `rule` of the question say who decided. */
export interface QuestionItem {
  kind: "question";
  question: Question;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

export interface QuestionsQuery {
  session_id?: string | null;
  state?: "answered" | "any" | "decidable" | "expired" | "open" | "withdrawn";
  limit?: number;
  before?: string | null;
}

export interface Queued {
  prompt_id: string;
  text: string;
  said_at: number;
  /** False: no CLI has it; the next start of one sends it first. */
  sent: boolean;
  priority?: string | null;
}

export interface RateLimit {
  at: number;
  info: Record<string, unknown>;
}

/** No. `stop` ends the turn as well. */
export interface RejectPlan {
  kind: "reject_plan";
  reason?: string;
  stop?: boolean;
}

/** Take directories away from the session. */
export interface RemoveOwnDirectories {
  type: "removeDirectories";
  directories: string[];
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

/** Remove rules. */
export interface RemoveOwnRules {
  type: "removeRules";
  rules: OwnRule[];
  behavior?: "allow" | "ask" | "deny";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

/** Replace the rules of that behaviour and destination. */
export interface ReplaceOwnRules {
  type: "replaceRules";
  rules: OwnRule[];
  behavior?: "allow" | "ask" | "deny";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

export interface Retry {
  attempt: number;
  max_retries: number;
  delay_ms: number;
  error: string;
  error_status?: number | null;
}

/** Calls of the API that failed, and are tried again. */
export interface RetryItem {
  kind: "retry";
  state?: "over" | "waiting";
  attempt?: number;
  max_retries?: number;
  delay_ms?: number;
  error?: string;
  /** The HTTP status; None where there was no answer. */
  status?: number | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** Not yet: the model reads the feedback and plans again. Images follow as a message, which only an engine can send. */
export interface RevisePlan {
  kind: "revise_plan";
  feedback: string;
  images?: Record<string, unknown>[];
}

/** Take the files back to where they were before this message. */
export interface Rewind {
  prompt_id: string;
  preview?: boolean;
}

export interface Rewound {
  possible: boolean;
  files?: string[];
  insertions?: number | null;
  deletions?: number | null;
  done?: boolean;
  reason?: string | null;
}

/** What changed of the list of sessions, and where to go on. */
export interface Rows {
  type: "sessions";
  cursor: number;
  changed?: Listed[];
  questions?: Question[];
  removed?: string[];
  reset?: boolean;
}

/** How often a rule of the policy decided. */
export interface RuleUse {
  rule: string;
  /** Questions that it answered. */
  answered: number;
  /** Questions that it wanted a person to see. */
  asked: number;
  /** When it last did. */
  last: number;
}

/** A machine that starts CLIs when it is asked to. */
export interface Runner {
  name: string;
  /** `away`: not connected, and not for long; `draining`: takes no new session. */
  state: "away" | "connected" | "draining" | "lost";
  /** When it came into this state, in milliseconds since the epoch. */
  since: number;
  host?: string;
  version?: string;
  cli_version?: string | null;
  /** Those whose CLI is on it. */
  sessions?: string[];
}

export interface RunnerAdded {
  name: string;
  /** Told this once. Whoever has it can be this runner. */
  token: string;
}

/** Whether a runner is to take no new sessions. */
export interface RunnerDrain {
  draining?: boolean;
}

export interface Said {
  session_id: string;
  prompt_id: string;
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  /** No CLI was alive: one was started for this message, with the session's own options. */
  resumed?: boolean;
  /** A turn was running: the CLI takes the message into it or after it. */
  queued?: boolean;
  repeated?: boolean;
}

/** A message to a session, also to one that is at rest or was made elsewhere. */
export interface Say {
  content: string | Record<string, unknown>[];
  /** Switch to this mode first. */
  mode?: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan" | null;
  priority?: "later" | "next" | "now" | null;
  key?: string | null;
}

/** What was looked for in files. */
export interface SearchView {
  view: "search";
  pattern: string;
  where?: string;
  files?: string[];
  text?: string;
  hits?: number | null;
  cut?: number;
}

/** MCP servers by name, in place of those that were set before. */
export interface Servers {
  servers: Record<string, Record<string, unknown>>;
}

/** What changed of the list of sessions, and where to go on. */
export interface SessionChanges {
  cursor: number;
  /** Whole rows, as they are now: new ones among them. */
  changed?: Listed[];
  /** Those that were asked or settled since, as they are now. */
  questions?: Question[];
  /** The ids of sessions that are no longer in the list. */
  removed?: string[];
  /** Too much has changed, or is gone: list the sessions again. The cursor is where to go on. */
  reset?: boolean;
}

/** How a session's CLI is started, now and at every resume. Only what is set reaches it. */
export interface SessionOptions {
  model?: string | null;
  fallback_model?: string | null;
  effort?: "high" | "low" | "max" | "medium" | "xhigh" | null;
  max_thinking_tokens?: number | null;
  mode?: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan" | null;
  allowed_tools?: string[];
  disallowed_tools?: string[];
  tools?: string[] | null;
  add_dirs?: string[];
  max_turns?: number | null;
  max_budget_usd?: number | null;
  system_prompt?: string | null;
  append_system_prompt?: string | null;
  agents?: Record<string, Record<string, unknown>> | null;
  mcp_servers?: Record<string, Record<string, unknown>>;
  strict_mcp_config?: boolean;
  settings?: Record<string, unknown> | null;
  setting_sources?: ("local" | "project" | "user")[] | null;
  json_schema?: Record<string, unknown> | null;
  /** How long its questions stay open before they expire, 0 for ever; the engine's own setting if left out. */
  permission_timeout_ms?: number | null;
  env?: Record<string, string>;
  /** False: the CLI writes no transcript, and nothing goes on with the session once it ends. */
  persist_session?: boolean;
  /** The runner to start it on; the engine's own machine if left out. */
  machine?: string | null;
  /** How it is reached; the engine's own choice if left out. */
  via?: "relay" | "sdk-url" | "sdk-url-hybrid" | "stdio" | null;
  /** On the simulator: work in `cwd` itself, and not in a folder that stands for it. */
  simulate_in_cwd?: boolean;
  /** Some flags of the CLI that have no name here: without dashes -> value, null for a switch. */
  flags?: Record<string, string | null>;
}

/** Which sessions. All words of `search` must be in what a row shows, in any case; `archived` asks for those that were put into the archive, which are left out otherwise. */
export interface SessionsQuery {
  cwd?: string | null;
  limit?: number;
  offset?: number;
  live?: boolean;
  search?: string;
  state?: "active" | "awaiting_input" | "done" | "error" | "interrupted" | null;
  label?: string | null;
  machine?: string | null;
  archived?: boolean;
}

/** Change the permission mode. */
export interface SetOwnMode {
  type: "setMode";
  mode: "acceptEdits" | "auto" | "bypassPermissions" | "default" | "dontAsk" | "plan";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
}

/** The CLI signs in, or cannot. */
export interface SignIn {
  at: number;
  is_signing_in?: boolean;
  /** What it tells the person who signs in: an address, say. */
  output?: string[];
  error?: string | null;
}

/** The CLI signs in, or cannot. */
export interface SignInItem {
  kind: "sign_in";
  state?: "done" | "failed" | "running";
  output?: string[];
  error?: string | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** That this browser is signed in. */
export interface SignedIn {
  since: number;
  expires_at: number;
  /** The server's. */
  version: string;
  signed_in?: boolean;
}

/** How many browsers were signed out. */
export interface SignedOut {
  browsers: number;
}

/** The model's questions stay unanswered; it goes on without. */
export interface Skip {
  kind: "skip";
}

/** A new session with its first prompt. */
export interface Start {
  prompt: string | Record<string, unknown>[];
  cwd: string;
  options?: SessionOptions;
  /** A word of the caller's own, for lists and for the policy. */
  label?: string | null;
  caps?: Caps;
  /** Go on with the session that was last used in `cwd`, as the CLI does with `--continue`. It has options, a label and caps of its own: of these, `options.mode` alone may be given. */
  continue_latest?: boolean;
  /** An idempotency key: the same key with the same request starts one session. */
  key?: string | null;
}

export interface Started {
  session_id: string;
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  prompt_id?: string | null;
  /** The key was known: this is the answer that was given then. */
  repeated?: boolean;
  /** No model works on it, and nothing is spent: its CLI is the simulator. */
  simulated?: boolean;
  /** The folder that a simulated session works in, in place of `cwd`. */
  scratch?: string | null;
  /** It was there before, and goes on. */
  continued?: boolean;
}

/** Everything a person wants to know about a session at this moment. */
export interface Status {
  session_id: string;
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  cwd: string;
  live: boolean;
  started_at: number;
  updated_at: number;
  /** The journal as far as this status knows it: `watch(after=cursor)` goes on from here. */
  cursor: number;
  /** The CLI's id for the conversation; differs from ours after /clear. */
  claude_session_id?: string | null;
  /** Why it is in `error` or was interrupted, and that a question has expired since the last message. */
  reason?: string | null;
  label?: string | null;
  title?: string | null;
  model?: string | null;
  mode?: string | null;
  /** None: as the CLI decides. */
  max_thinking_tokens?: number | null;
  pid?: number | null;
  cli_version?: string | null;
  simulated?: boolean;
  /** The folder that a simulated session works in, in place of `cwd`. */
  scratch?: string | null;
  /** The runner its CLI is on; None: the engine's own machine. */
  machine?: string | null;
  via?: "dial-in" | "relay" | "sdk-url" | "sdk-url-hybrid" | "stdio";
  waiting_on?: Waiting | null;
  retry?: Retry | null;
  rate_limit?: RateLimit | null;
  context?: ContextUsed | null;
  /** The conversation is being summarised. */
  compacting?: boolean;
  /** Set while the CLI signs in, and when it could not. */
  sign_in?: SignIn | null;
  cost_usd?: number;
  tokens?: Tokens;
  /** What each model has used and cost. */
  models?: Record<string, ModelSpent>;
  turns?: number;
  running_tools?: ToolRun[];
  /** The last tools that ended: ten, or all so far where output is asked for, up to 200. */
  recent_tools?: ToolRun[];
  /** How many have ended so far. */
  tools_ended?: number;
  subagents?: Subagent[];
  /** Those that take an answer, oldest first. */
  questions?: Question[];
  queued?: Queued[];
  /** The text of the last turn that ended. */
  result?: string | null;
  /** What it gave for the `json_schema` of the session, up to 20,000 characters of JSON. */
  structured_output?: unknown;
  /** The last lines of text of the model's, when they were asked for. */
  output?: string[];
  /** There is more after the cursor that was given than the lines that were asked for, or than was looked through. */
  output_cut?: boolean;
  /** Its CLI is not the engine's; it asks here, and can be told nothing else while it is there. */
  foreign?: boolean;
  /** The session it was forked from, or whose plan it implements. */
  parent?: string | null;
  successor?: string | null;
  caps?: Caps;
  /** False: it keeps no transcript, so it ends for good with its CLI. */
  resumable?: boolean;
  /** `transcript`: no engine of ours has touched it, and this is what its transcript shows. Whether it is at work elsewhere is not known. */
  source?: "engine" | "transcript";
}

export interface StatusQuery {
  output_lines?: number;
  after?: number | null;
}

export interface Stopped {
  session_id: string;
  state: "active" | "awaiting_input" | "done" | "error" | "interrupted";
  was_live: boolean;
}

/** Where a stream begins (now, if left out) and whose events it has (everybody's). */
export interface StreamQuery {
  after?: number | null;
  session_id?: string | null;
}

/** Some of a session's time. */
export interface Stretch {
  doing: "idle" | "model" | "person" | "tool";
  start: number;
  end: number;
  /** The tool, or what was asked. */
  name?: string;
  /** How many stretches it stands for, where there were too many; it is what they mostly were. */
  count?: number;
}

/** A value in the form that the caller asked for. */
export interface StructuredView {
  view: "structured";
  value?: unknown;
  cut?: number;
}

export interface Subagent {
  id: string;
  kind: string;
  description: string;
  since?: number;
  /** The tool call that it belongs to. */
  tool_use_id?: string | null;
  last_tool?: string | null;
  tool_uses?: number;
  tokens?: number;
  duration_ms?: number;
}

/** The work that a tool call started: a subagent, or a command in the background. */
export interface TaskRun {
  id: string;
  /** The subagent's type, or the CLI's name for another kind of task. */
  type?: string;
  description?: string;
  /** `running`, or as the CLI says: `completed`, `failed`, `stopped`, `killed`. */
  state?: string;
  background?: boolean;
  last_tool?: string | null;
  tool_uses?: number;
  tokens?: number;
  duration_ms?: number;
  summary?: string | null;
}

/** Text of the model's; Markdown. */
export interface TextItem {
  kind: "text";
  text?: string;
  state?: "aborted" | "done" | "retracted" | "streaming";
  model?: string | null;
  /** The class of an API error, where this is what the CLI says of it. */
  error?: string | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** How many tokens a thought may have; null for the CLI's default. */
export interface ThinkingChange {
  tokens: number | null;
}

/** What the model thinks; empty where only the API can read it. */
export interface ThinkingItem {
  kind: "thinking";
  text?: string;
  state?: "aborted" | "done" | "retracted" | "streaming";
  duration_ms?: number | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** What all of a session's time went into. Without holes, and at most 2,001 stretches. */
export interface Timeline {
  spans: Stretch[];
  /** The moment up to which it goes, by the server's clock. */
  at: number;
  /** Milliseconds of each, of every stretch as it was. */
  totals?: Record<string, number>;
  /** The last stretch has no end yet. */
  is_going_on?: boolean;
}

export interface Todo {
  text: string;
  state?: string;
}

/** The list of things to do, as it is after the call. */
export interface TodoView {
  view: "todo";
  todos?: Todo[];
  cut?: number;
}

export interface Tokens {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
}

/** A call of a tool. */
export interface ToolItem {
  kind: "tool";
  tool: string;
  input?: Record<string, unknown>;
  /** `writing`: the model is still writing the input. */
  state?: "asking" | "denied" | "done" | "failed" | "interrupted" | "retracted" | "running" | "writing";
  /** Characters of the input so far, while it is being written. */
  written?: number;
  elapsed_s?: number;
  /** What the model is told of it. */
  result?: string | null;
  /** The entry that has all of the result. */
  result_seq?: number | null;
  /** Characters of the result that were left out. */
  cut?: number;
  /** How many the result has; the entry has them. */
  images?: number;
  ended_at?: number | null;
  /** Why it was denied, where the CLI or an answer says so. */
  reason?: string | null;
  /** The id of the question that was asked about it. */
  question?: string | null;
  task?: TaskRun | null;
  view?: CommandView | DiffView | FileView | SearchView | TodoView | ImageView | WebView | McpView | PlanView | ChoiceView | StructuredView | null;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

export interface ToolRun {
  id: string;
  name: string;
  state: "completed" | "denied" | "failed" | "running";
  detail?: string;
  since?: number;
  agent?: string | null;
  /** How long it has been running, as the CLI last reported. */
  elapsed_s?: number | null;
}

/** How a turn ended. */
export interface TurnItem {
  kind: "turn";
  outcome?: "cancelled" | "failed" | "finished" | "interrupted";
  reason?: string;
  error?: string | null;
  cost_usd?: number;
  tokens?: Tokens;
  models?: Record<string, ModelShare>;
  duration_ms?: number;
  api_ms?: number;
  /** How often the model was asked. */
  steps?: number;
  /** The tool calls that were denied. */
  denials?: string[];
  structured_output?: unknown;
  id: string;
  seq: number;
  at?: number;
  agent?: string | null;
}

/** How long at most; for the first thing that matters after a cursor, or else until the session waits for somebody, or with `at_rest` until it neither works nor asks. */
export interface WaitQuery {
  seconds?: number;
  after?: number | null;
  at_rest?: boolean;
}

export interface Waiting {
  what: "api" | "background" | "hook" | "machine" | "person" | "start" | "tool";
  detail?: string;
}

/** One answer a face can offer, ready to be sent: `answer` completed by what `needs` names. */
export interface Way {
  id: string;
  label: string;
  /** The answer as it is sent; `kind` and what this way fixes of it. */
  answer: Record<string, unknown>;
  /** The members a person fills in: `reason`, `feedback`, `input`, `plan`, `answers`, ... */
  needs?: string[];
}

/** A page of the web, or a search of it. */
export interface WebView {
  view: "web";
  url?: string;
  query?: string;
  text?: string;
  links?: string[];
  cut?: number;
}

/** Why an answer is no longer wanted. */
export interface Withdraw {
  because: string;
}

/** One member of a request that cannot be taken. */
export interface Wrong {
  member: string;
  message: string;
}
