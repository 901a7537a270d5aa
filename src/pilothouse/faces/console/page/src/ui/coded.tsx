/** Words with pieces of code between backticks, as the server writes titles: `Run` and then a command. */

export function Coded(props: { text: string }) {
  const pieces = props.text.split("`");
  // One that is never closed is part of the words.
  if (pieces.length < 3 || pieces.length % 2 === 0) return <>{props.text}</>;
  return <>{pieces.map((piece, at) => (at % 2 ? <code key={at}>{piece}</code> : piece))}</>;
}
