// Package engines finds out what engines are, and writes the documents that say the same.
//
// # Questions
//
// [Ask] reads pages of an engine by GET, and Ollama's /api/show by POST. It runs no inference. The list of models comes first,
// since its owner names most engines; pages that only one kind of engine has decide about the others. An engine that speaks the
// API and is none of these is of the kind openai. The code of each page names its source. Answers are untrusted: pages are bounded
// in size and time, names that documents refuse are left out, and texts that reach a document are quoted.
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
// A [Finder] asks all engines at once and publishes the documents whenever they change. It repeats its question to an engine that
// does not answer, first after 250 ms, then after twice as long each time, up to 10 s. It repeats the question to an engine that answered
// every 10 s. All intervals have 20 % of jitter. An engine that stops answering keeps its documents, and its health check takes it out of use.
//
// Two errors need an operator: a URL that is no engine, and two engines that do not go together. Either ends [Finder.Run] if the answer
// to the first question shows it; a URL that is no engine ends it also while no engine has answered. A later error is reported, and
// the documents stay as they were.
package engines
