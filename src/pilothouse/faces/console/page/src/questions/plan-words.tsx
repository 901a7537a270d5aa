/** What to change about a plan, or why it is rejected: words, and pictures that are pasted. */

import type { Question, Way } from "../api/types";
import { toast } from "../ui/toasts";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { useDraft } from "./drafts";
import { addressOf, imagesFrom, type ImageBlock } from "./pasted-images";
import { WordsField } from "./words-field";

interface PlanWordsProps {
  question: Question;
  way: Way;
  wasAsked: boolean;
  leave: () => void;
}

export function PlanWords(props: PlanWordsProps) {
  const { question, way } = props;
  const isRevision = way.answer.kind === "revise_plan";
  // A CLI that somebody else started takes no pictures from here.
  const takesImages = isRevision && !question.foreign;
  const [words, setWords] = useDraft(question.id, "words", "");
  const [images, setImages] = useDraft<ImageBlock[]>(question.id, "images", []);
  const isBusy = isSending(question.id);
  const isEmpty = isRevision && !words.trim() && !images.length;
  const submit = () => {
    if (isEmpty || isBusy) return;
    const said = words.trim();
    const pasted = images.length ? { images } : {};
    void send(question, { ...way.answer, ...(isRevision ? { feedback: said, ...pasted } : { reason: said }) });
  };
  const paste = async (event: ClipboardEvent) => {
    const found = takesImages ? await imagesFrom(event) : { images: [], refused: [] };
    if (found.images.length) setImages([...images, ...found.images]);
    for (const why of found.refused) toast(why, true);
  };
  return (
    <WordsField
      label={labelFor(isRevision, takesImages)}
      value={words}
      change={setWords}
      send={submit}
      leave={props.leave}
      disabled={isBusy}
      takesFocus={props.wasAsked}
      placeholder={isRevision ? "Type here to say what to change" : ""}
      onPaste={(event) => void paste(event)}
    >
      {takesImages && (
        <Thumbnails images={images} remove={(at) => setImages(images.filter((_, each) => each !== at))} />
      )}
      <AnswerButton
        act={submit}
        press="Enter"
        isCurrent
        class={isRevision ? "main" : "danger"}
        disabled={isBusy || isEmpty}
      >
        {isRevision ? "Keep planning" : way.label}
      </AnswerButton>
      <AnswerButton act={props.leave} press="Esc" isCurrent class="plain">
        Cancel
      </AnswerButton>
    </WordsField>
  );
}

function labelFor(isRevision: boolean, takesImages: boolean): string {
  if (!isRevision) return "Why not? The model reads this. It may stay empty.";
  return takesImages ? "What should change? Images can be pasted." : "What should change?";
}

function Thumbnails(props: { images: readonly ImageBlock[]; remove: (at: number) => void }) {
  if (!props.images.length) return null;
  return (
    <ul class="pasted-images" aria-label="Pasted images">
      {props.images.map((image, at) => (
        <li key={at}>
          <img src={addressOf(image)} alt={`Pasted image ${at + 1}`} />
          <button
            type="button"
            class="button plain"
            aria-label={`Remove image ${at + 1}`}
            onClick={() => props.remove(at)}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}
