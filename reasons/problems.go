package reasons

// Kinds of problems, of what the documents say.
const (
	StoreEmpty           = "store_empty"
	NoModel              = "no_model"
	NoColo               = "no_colo"
	ModelWithoutEndpoint = "model_without_endpoint"
	ModelWithoutRoute    = "model_without_route"
	DocumentRejected     = "document_rejected"
	DocumentConflict     = "document_conflict"
	ReferenceDangling    = "reference_dangling"
	PoolSetting          = "pool_setting"
)

// Problem is what is known of a kind of problem: what it does to clients, and what an operator can do about it.
type Problem struct {
	Kind    string
	Meaning string // for the table in the documentation
	Effect  string // on clients; a single problem may say it more closely
	Action  string // likewise
}

// Problems lists every kind of problem. The order is that of the documentation.
func Problems() []Problem { return problems }

// ProblemOf returns what is known of a kind, which must be one of the list.
func ProblemOf(kind string) Problem {
	for _, p := range problems {
		if p.Kind == kind {
			return p
		}
	}
	panic("reasons: no such kind of problem: " + kind)
}

var problems = []Problem{
	{Kind: StoreEmpty, Meaning: "there is no document at all",
		Effect: "every request gets 401, or 404 at an entry with -open", Action: "apply the documents of the fleet: colonnade config apply PATH; a node that should have some may follow the wrong etcd (-etcd)"},
	{Kind: NoModel, Meaning: "there are documents, and none of a model",
		Effect: "every request gets 404: no model of its name", Action: "apply a document models/NAME"},
	{Kind: NoColo, Meaning: "there are models, and no active colo",
		Effect: "every request gets 503", Action: "apply a document colos/NAME, or set state: active in one"},
	{Kind: ModelWithoutEndpoint, Meaning: "no active colo has an endpoint with slots in the model's pool",
		Effect: "every request for the model gets 503", Action: "check the field pool of the model and of the endpoints, and the state of their colos"},
	{Kind: ModelWithoutRoute, Meaning: "the model's routing sends no request to a colo that has endpoints of its pool",
		Effect: "every request for the model gets 503", Action: "change routing.steps of the model, or the names, regions and labels of the colos"},
	{Kind: DocumentRejected, Meaning: "the newest version of a document is not in force, since it is not valid",
		Effect: "the version before stays in force, if there is one", Action: "correct the document: colonnade config get KEY, then config apply"},
	{Kind: DocumentConflict, Meaning: "two documents claim the same URL, API key, alias or colo",
		Effect: "one of the two is not in force in part", Action: "change or delete one of them"},
	{Kind: ReferenceDangling, Meaning: "a document names something that is not there, or a field has no effect for the lack of something else",
		Effect: "the field has no effect", Action: "correct the name, or apply what is missing"},
	{Kind: PoolSetting, Meaning: "settings of a pool that are allowed and hardly intended",
		Effect: "the pool serves, in another order than its settings suggest", Action: "change the settings as the text says"},
}
