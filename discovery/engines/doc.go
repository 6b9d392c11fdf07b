// Package engines finds out what engines are, and writes the documents that say the same.
//
// # Questions
//
// [Ask] reads an engine's own pages, by GET and without inference. The list of models comes first, since its owner names
// most engines; pages that only one kind of engine has decide about the others. An engine that speaks the API and is none of
// these is of the kind openai. The code of each page names its source. Answers are untrusted: pages are bounded in size
// and time, names that documents refuse are left out, and texts that reach a document are quoted.
//
// # Documents
//
// [Documents] writes a colo, and a pool for each set of models: engines that serve the same models share a pool. A pool has the name
// of its model, or that of the base model of its adapters, or else the kind and the ID of its first engine, such as
// ollama-127.0.0.1-11434. An endpoint's ID is its host and port, so it stays the same when its engine serves another model.
//
// The number of requests that an engine runs at once becomes its concurrency. Where it does not say, that is auto for models that
// generate text, and the default of its kind for others, whose answers have no first token to learn from.
//
// Models have no aliases but two. The model of the first URL is called default as well, if its engine serves one chat model: its adapters
// and further names do not count. And NAME stands for a model NAME:latest of Ollama, as it does there.
//
// Two engines may serve one model only if they are alike to a client: the same longest context where both say it, the same type, and the
// same set of models, since an endpoint belongs to one pool. Otherwise [Documents] returns an error with both URLs.
//
// # Waiting
//
// A [Finder] asks all engines at once and publishes the documents whenever they change. An engine that does not answer is asked again
// after 250 ms, then ever less often, at most every 10 s; one that answered, too, every 10 s, all with jitter. An engine that stops
// answering keeps its documents: its health check takes it out. Errors that need an operator end [Finder.Run] if they
// are the answer to the first question, or if no engine was found yet: a URL that is no engine, or two engines that do not go together. Later,
// when others are served, they are reported, and the documents stay as they were.
package engines
