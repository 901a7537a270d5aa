/** Images of an item: their bytes are only in its lines, and are read when somebody wants to see them. */

import { useState } from "preact/hooks";
import { toastError } from "../ui/toasts";
import { picturesIn, sourceOf, type Picture } from "./item-source";

export function Pictures(props: { sessionId: string; id: string; count: number; about?: string }) {
  const [pictures, show] = useState<readonly Picture[] | null>(null);
  const [isLoading, load] = useState(false);
  const read = async () => {
    load(true);
    try {
      show(picturesIn(await sourceOf(props.sessionId, props.id)));
    } catch (error) {
      toastError(error);
    } finally {
      load(false);
    }
  };
  if (pictures) return <Shown pictures={pictures} about={props.about ?? "Image"} />;
  const words = props.count === 1 ? "Show the image" : `Show ${props.count} images`;
  return (
    <button type="button" class="button" disabled={isLoading} onClick={() => void read()}>
      {words}
    </button>
  );
}

function Shown(props: { pictures: readonly Picture[]; about: string }) {
  if (!props.pictures.length) return <p class="quiet small">The image is not in the lines any more.</p>;
  return (
    <div class="item-pictures">
      {props.pictures.map((each, at) => (
        <img key={at} src={`data:${each.mediaType};base64,${each.data}`} alt={props.about} />
      ))}
    </div>
  );
}
