// The others import it as a file.
export { default as place } from "qdq/qdq.wasm";
