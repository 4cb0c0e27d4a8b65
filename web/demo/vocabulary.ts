// The words of a tokenizer's file, and a text out of their numbers.

// By number. Of tokenizer.json (Hugging Face) the vocabulary and the words that were added, of vocab.txt the lines.
export function readVocabulary(name: string, text: string): string[] {
  if (!name.endsWith(".json")) return text.split(/\r?\n/);
  const file = JSON.parse(text);
  const vocab: Record<string, number> | [string, number][] | undefined = file.model?.vocab;
  if (!vocab) throw new Error("it has no model.vocab; wanted the tokenizer.json of a Hugging Face model");
  const words: string[] = [];
  if (Array.isArray(vocab)) vocab.forEach(([word], id) => (words[id] = word));
  else for (const [word, id] of Object.entries(vocab)) words[id] = word;
  for (const { id, content } of (file.added_tokens ?? []) as { id: number; content: string }[]) words[id] = content;
  return words;
}

// WordPiece marks what goes on in a word (##ing), BPE and Unigram what begins one (Ġword, ▁word).
export function textOf(ids: readonly number[], vocabulary: readonly string[]): string {
  const words = ids.map((id) => vocabulary[id] ?? `#${id}`);
  const isMarked = words.some((word) => /^[Ġ▁]/.test(word));
  const text = words
    .filter((word) => !/^(\[PAD\]|<pad>|<\|endoftext\|>)$/.test(word))
    .map((word) => (isMarked ? word.replaceAll(/[Ġ▁]/g, " ") : word.startsWith("##") ? word.slice(2) : ` ${word}`));
  return text.join("").trim();
}
