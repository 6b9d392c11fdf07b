package messages

// Treatment is what becomes of a field.
type Treatment uint8

const (
	Translated Treatment = iota // chat has it, perhaps in another form
	LeftOut                     // it is not sent, which does no harm
	Refused                     // it asks for something that the engine cannot do: the request is refused
)

// String returns the treatment for documentation.
func (t Treatment) String() string {
	return [...]string{"translated", "left out", "refused"}[t]
}

// Field is a member of an object in a request. Null is as if it were absent.
type Field struct {
	Name string
	Does Treatment
	Note string // for the documentation, and of a refused field for the error
}

// Object is a kind of object in a request, with its fields. Any other field is refused.
type Object struct {
	Name   string
	Fields []Field
}

// maxFields is the number of fields of the largest object.
const maxFields = 24

// Objects returns the tables of all objects in requests.
func Objects() []*Object {
	return []*Object{&request, &message, &textBlock, &imageBlock, &imageSource, &documentBlock, &documentSource, &toolUseBlock, &toolResultBlock,
		&thinkingBlock, &redactedBlock, &tool, &toolChoice, &thinking, &outputConfig, &outputFormat}
}

const (
	cacheNote     = "engines cache prompts on their own"
	citationsNote = "chat has no citations"
)

var request = Object{"the request", []Field{
	{"model", Translated, "the engine's name of the model"},
	{"max_tokens", Translated, "`max_tokens`; required, and at least 1"},
	{"messages", Translated, "`messages`; turns of the same role in a row become one, and the last must not be the assistant's"},
	{"system", Translated, "a first message of the role `system`"},
	{"stop_sequences", Translated, "`stop`"},
	{"stream", Translated, "`stream`, with `stream_options.include_usage`"},
	{"temperature", Translated, "`temperature`"},
	{"top_p", Translated, "`top_p`"},
	{"top_k", Translated, "`top_k`, which is no field of OpenAI's: most engines read it, TGI does not"},
	{"tools", Translated, "`tools`, each of them a function"},
	{"tool_choice", Translated, "`tool_choice`: `any` becomes `required`; and `parallel_tool_calls`"},
	{"thinking", Translated, "whether the answer shows what the engine sends as reasoning; the engine decides whether and how long the model thinks"},
	{"output_config", Translated, "`reasoning_effort` and `response_format`"},
	{"output_format", Translated, "`response_format`; an older name of `output_config.format`"},
	{"metadata", LeftOut, "it is for Anthropic's own protection against abuse"},
	{"cache_control", LeftOut, cacheNote},
	{"service_tier", LeftOut, "the account's document decides about its priority"},
	{"context_management", LeftOut, "nothing is cleared: the model gets the whole conversation"},
	{"container", Refused, "engines run no code"},
	{"inference_geo", Refused, "it cannot be promised where a request runs"},
	{"mcp_servers", Refused, "engines call no MCP servers"},
}}

var message = Object{"a message", []Field{
	{"role", Translated, "`role`: `user`, `assistant` or `system`"},
	{"content", Translated, "`content`; texts in a row are joined by line ends"},
}}

var textBlock = Object{"a block `text`", []Field{
	{"type", Translated, ""},
	{"text", Translated, "text"},
	{"cache_control", LeftOut, cacheNote},
	{"citations", LeftOut, "the text that they belong to stays"},
}}

var imageBlock = Object{"a block `image`", []Field{
	{"type", Translated, "a part `image_url`, of users and in results of tools only"},
	{"source", Translated, "`image_url.url`"},
	{"cache_control", LeftOut, cacheNote},
}}

var imageSource = Object{"the source of an image", []Field{
	{"type", Translated, "`base64` or `url`; `file` is refused, since nothing is stored"},
	{"media_type", Translated, "part of a `data:` URL; one of an image"},
	{"data", Translated, "part of a `data:` URL"},
	{"url", Translated, "the URL; `http:` or `https:`"},
	{"file_id", Refused, "no files are stored"},
}}

var documentBlock = Object{"a block `document`", []Field{
	{"type", Translated, "text"},
	{"source", Translated, "text, if it is plain text; any other is refused"},
	{"title", Translated, "a line before the text"},
	{"context", Translated, "a line before the text"},
	{"cache_control", LeftOut, cacheNote},
	{"citations", Translated, "refused if they are enabled: " + citationsNote},
}}

var documentSource = Object{"the source of a document", []Field{
	{"type", Translated, "`text`; any other is refused"},
	{"media_type", Translated, "`text/plain`"},
	{"data", Translated, "text"},
}}

var toolUseBlock = Object{"a block `tool_use`", []Field{
	{"type", Translated, "an element of `tool_calls`, in turns of the assistant only; texts that follow it come before it"},
	{"id", Translated, "`id`"},
	{"name", Translated, "`function.name`"},
	{"input", Translated, "`function.arguments`, as JSON in a string"},
	{"cache_control", LeftOut, cacheNote},
	{"caller", LeftOut, "it can only be the model"},
}}

var toolResultBlock = Object{"a block `tool_result`", []Field{
	{"type", Translated, "a message of the role `tool`, before everything else in the turn"},
	{"tool_use_id", Translated, "`tool_call_id`"},
	{"content", Translated, "`content`; images in it are moved to the user's message that follows, since a message of a tool has none; blocks other than texts and images are refused"},
	{"is_error", Translated, "if it is true, the content begins with `Error: `"},
	{"cache_control", LeftOut, cacheNote},
}}

var thinkingBlock = Object{"a block `thinking`", []Field{
	{"type", Translated, "`reasoning_content` of the assistant's message"},
	{"thinking", Translated, "`reasoning_content`, which engines that reason read; others ignore it"},
	{"signature", LeftOut, "engines sign nothing"},
}}

var redactedBlock = Object{"a block `redacted_thinking`", []Field{
	{"type", LeftOut, "only Anthropic can read it"},
	{"data", LeftOut, "only Anthropic can read it"},
}}

var tool = Object{"a tool", []Field{
	{"type", Translated, "`custom`; any other is a tool of Anthropic's, and refused"},
	{"name", Translated, "`function.name`"},
	{"description", Translated, "`function.description`"},
	{"input_schema", Translated, "`function.parameters`"},
	{"strict", Translated, "`function.strict`"},
	{"cache_control", LeftOut, cacheNote},
	{"eager_input_streaming", LeftOut, "engines stream the input of tools as it comes"},
	{"defer_loading", Translated, "refused if it is true: engines do not search for tools"},
	{"allowed_callers", Refused, "engines run no code that could call tools"},
	{"input_examples", Refused, "chat has no examples of a tool's input; put them into its description"},
}}

var toolChoice = Object{"`tool_choice`", []Field{
	{"type", Translated, "`auto`, `any` (`required`), `none`, or `tool` (a function)"},
	{"name", Translated, "`function.name`"},
	{"disable_parallel_tool_use", Translated, "`parallel_tool_calls: false` if it is true"},
}}

var thinking = Object{"`thinking`", []Field{
	{"type", Translated, "`enabled` and `adaptive` show the model's reasoning in blocks `thinking`, `disabled` does not"},
	{"budget_tokens", LeftOut, "`max_tokens` bounds thinking and answer together"},
	{"display", Translated, "`omitted` does not show the reasoning"},
}}

var outputConfig = Object{"`output_config`", []Field{
	{"effort", Translated, "`reasoning_effort`; the engine decides which values it takes"},
	{"format", Translated, "`response_format`"},
}}

var outputFormat = Object{"`output_config.format`", []Field{
	{"type", Translated, "`json_schema`"},
	{"schema", Translated, "`response_format.json_schema.schema`"},
}}
