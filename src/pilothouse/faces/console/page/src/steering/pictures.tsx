/** The images of a message that is being written: added by file, paste or drop, shown small, taken out again. */

import { useRef } from "preact/hooks";
import { toastError } from "../ui/toasts";
import { picturesOf, readingsOf, setPictures } from "./drafts";
import { pastedFiles, pictureUrl, readPicture, type Picture } from "./images";

/** The images of a draft, by what it is for. */
export function usePictures(name: string) {
  const pictures = picturesOf(name).value;
  // What is sent meanwhile would go without them.
  const isReading = readingsOf(name).value > 0;
  const addFiles = async (files: readonly File[]) => {
    const readings = readingsOf(name);
    readings.value += files.length;
    for (const file of files) {
      try {
        const picture = await readPicture(file);
        setPictures(name, [...picturesOf(name).peek(), picture]);
      } catch (error) {
        toastError(error);
      } finally {
        readings.value -= 1;
      }
    }
  };
  const paste = (event: ClipboardEvent) => {
    const files = pastedFiles(event);
    if (!files.length) return;
    event.preventDefault();
    void addFiles(files);
  };
  const dropPicture = (id: string) => setPictures(name, picturesOf(name).peek().filter((each) => each.id !== id));
  return { pictures, isReading, addFiles, paste, dropPicture };
}

interface PicturesProps {
  pictures: readonly Picture[];
  isReading: boolean;
  onDrop: (id: string) => void;
}

export function Pictures(props: PicturesProps) {
  return (
    <>
      {props.pictures.length > 0 && (
        <ul class="pictures" aria-label="Images">
          {props.pictures.map((each) => (
            <li key={each.id}>
              <img src={pictureUrl(each)} alt={each.name} />
              <button type="button" class="button" aria-label={`Remove ${each.name}`} onClick={() => props.onDrop(each.id)}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      {props.isReading && (
        <p class="pictures-note small quiet" role="status">
          Reading an image…
        </p>
      )}
    </>
  );
}

export function AttachButton(props: { disabled: boolean; onFiles: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class="button plain"
        aria-label="Add images"
        title="Add images (also by paste or drop, 3.7 MB each)"
        disabled={props.disabled}
        onClick={() => input.current?.click()}
      >
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M2.5 3.5h11v9h-11zM2.5 10.5l3-3 3 3 2-2 3 3" />
          <circle cx="10.5" cy="6" r=".8" />
        </svg>
      </button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept="image/png,image/jpeg,image/gif,image/webp"
        onChange={(event) => {
          props.onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
