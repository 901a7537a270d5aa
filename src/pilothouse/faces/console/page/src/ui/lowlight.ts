/** The part of lowlight that is used, so that the bundle leaves out the grammars that it names. */

export { createLowlight } from "lowlight";
