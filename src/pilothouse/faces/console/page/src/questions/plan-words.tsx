/** What to change about a plan, or why it is rejected: words, and pictures that are pasted. */

import type { Question, Way } from "../api/types";
import { blocksOf } from "../steering/images";
import { Pictures, usePictures } from "../steering/pictures";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { picturesName, useDraft } from "./drafts";
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
  const { pictures, isReading, paste, dropPicture } = usePictures(picturesName(question.id));
  const isBusy = isSending(question.id) || isReading;
  const isEmpty = isRevision && !words.trim() && !pictures.length;
  const submit = () => {
    if (isEmpty || isBusy) return;
    const said = words.trim();
    const pasted = pictures.length ? { images: blocksOf(pictures) } : {};
    void send(question, { ...way.answer, ...(isRevision ? { feedback: said, ...pasted } : { reason: said }) });
  };
  return (
    <WordsField
      label={labelFor(isRevision, takesImages)}
      value={words}
      change={setWords}
      send={submit}
      leave={props.leave}
      disabled={isSending(question.id)}
      takesFocus={props.wasAsked}
      placeholder={isRevision ? "Type here to say what to change" : ""}
      {...(takesImages && { onPaste: paste })}
    >
      {takesImages && <Pictures pictures={pictures} isReading={isReading} onDrop={dropPicture} />}
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
