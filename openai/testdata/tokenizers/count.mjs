// Counts the tokens of texts by real tokenizers, and finds what single tokens of their vocabularies stand for: counts.json, for
// TestPromptTokensAtLeast. Run it in this folder: npm install && node count.mjs > counts.json
import { createRequire } from 'module'
const versions = createRequire(import.meta.url)('./package.json').dependencies

const tokenizers = {}
for (const name of ['r50k_base', 'p50k_base', 'cl100k_base', 'o200k_base']) {
  const m = await import(`gpt-tokenizer/encoding/${name}`)
  const size = m.vocabularySize ?? 201000
  tokenizers[name] = { count: (t) => m.encode(t).length, token: (i) => m.decode([i]), size }
}
for (const [name, from] of [['llama2', 'llama-tokenizer-js'], ['llama3', 'llama3-tokenizer-js'], ['mistral', 'mistral-tokenizer-js']]) {
  const t = (await import(from)).default
  const plain = (i) => String(t.vocabById[i] ?? '').replaceAll('▁', ' ').replaceAll('Ġ', ' ').replaceAll('Ċ', '\n')
  tokenizers[name] = { count: (x) => t.encode(x).length, token: plain, size: t.vocabById.length }
}

// words and letters are what the package measures: ASCII letters and digits, and runs of them that follow white space or begin the token.
const words = (t) => (t.match(/(^|[ \n\t\r])[A-Za-z0-9]/g) ?? []).length
const letters = (t) => (t.match(/[A-Za-z0-9]/g) ?? []).length

const samples = [
  'The quick brown fox jumps over the lazy dog. '.repeat(40), 'a b c d e f g h i j k l m n o p q r s t u v w x y z '.repeat(20),
  'internationalization '.repeat(60), 'x'.repeat(2000), '0'.repeat(2000), ' '.repeat(2000), '\n'.repeat(500), 'abc\n\n\tdef\r\n'.repeat(100), '= '.repeat(500),
  'const x = { a: 1, b: [2, 3] };\n  if (x.a === 1) { return foo(x); }\n'.repeat(20), 'Größe 你好，世界 こんにちは 안녕하세요 Привет 😀 '.repeat(30), 'the '.repeat(1000),
]
const out = { versions, vocabularies: {}, texts: [] }
for (const [name, t] of Object.entries(tokenizers)) {
  let most = { words: 0, letters: 0 }, longest = []
  for (let i = 0; i < t.size; i++) {
    let text
    try { text = t.token(i) } catch { continue }
    if (text.startsWith('<|') || text.startsWith('<s') || text.startsWith('</')) continue
    if (words(text) > most.words) most.words = words(text)
    if (letters(text) > most.letters) most.letters = letters(text)
    longest.push([letters(text), text])
  }
  longest.sort((a, b) => b[0] - a[0])
  out.vocabularies[name] = most
  for (const [, text] of longest.slice(0, 3)) samples.push(text.repeat(50)) // the texts for which a bound by letters is tightest
}
for (const text of new Set(samples)) {
  const tokens = {}
  for (const [name, t] of Object.entries(tokenizers)) tokens[name] = t.count(text)
  out.texts.push({ text, tokens })
}
console.log(JSON.stringify(out, null, 1))
