package document

import (
	"strings"

	"colonnade/fleet"
)

// kind describes a kind of documents.
type kind struct {
	fleet.Kind
	form  string // of the key
	about string
	noun  func(identity) any // returns a pointer to a new struct, for the decoder
}

var kinds = []kind{
	{fleet.KindDefaults, "defaults", "Defaults for the fields of other documents.",
		func(identity) any { return &defaults{} }},
	{fleet.KindModel, "models/<model>", "A model that clients ask for by name.",
		func(id identity) any { return &fleet.Model{Name: id.Name} }},
	{fleet.KindPool, "pools/<pool>", "Permits and queue of the endpoints that serve the same models. A pool without a document has the defaults.",
		func(id identity) any { return &fleet.Pool{Name: id.Name} }},
	{fleet.KindEndpoint, "endpoints/<colo>/<endpoint>", "A running engine in a colo.",
		func(id identity) any { return &fleet.Endpoint{Colo: id.Colo, ID: id.Name} }},
	{fleet.KindColo, "colos/<colo>", "A location with endpoints.",
		func(id identity) any { return &fleet.Colo{Name: id.Name} }},
	{fleet.KindFlow, "flows/<model>", "Weights of colos for the requests of a model with routing.algorithm: flow.",
		func(id identity) any { return &fleet.Flow{Model: id.Name} }},
	{fleet.KindAccount, "accounts/<account>", "A tenant that requests are billed to.",
		func(id identity) any { return &fleet.Account{Name: id.Name} }},
	{fleet.KindAPIKey, "keys/<id>", "An API key, by its hash. Written by colonnade keys; the id is the part of the key between cn_ and its last underscore.",
		func(id identity) any { return &fleet.APIKey{ID: id.Name} }},
	{fleet.KindLimits, "limits", "Limits of all clients together.",
		func(identity) any { return &fleet.FleetLimits{} }},
	{fleet.KindIssuer, "issuers/<issuer>", "An issuer of JWTs that clients send in place of an API key.",
		func(id identity) any { return &fleet.Issuer{Name: id.Name} }},
	{fleet.KindCapture, "captures/<capture>", "For debugging: the requests of one account with their content, written to a sink of its own for a while.",
		func(id identity) any { return &fleet.Capture{Name: id.Name} }},
	{fleet.KindSink, "sinks/<sink>", "A receiver outside of the fleet that gets the events of every node.",
		func(id identity) any { return &fleet.Sink{Name: id.Name} }},
	{fleet.KindDeletions, "deletions", "Confirmation of deletions that nodes hold back. Written by colonnade config.",
		func(identity) any { return &fleet.Deletions{} }},
	{fleet.KindServer, "servers/<colo>/<node>", "A colo server. Written by the server itself, with a lease.",
		func(id identity) any { return &fleet.Server{Colo: id.Colo, Node: id.Name} }},
	{fleet.KindEntry, "entries/<node>", "An entry. Written by the entry itself, with a lease.",
		func(id identity) any { return &fleet.EntryNode{Node: id.Name} }},
	{fleet.KindWorker, "workers/<node>", "A machine with GPUs, and an engine there. Written by colonnade register, with a lease.",
		func(id identity) any { return &fleet.Worker{Node: id.Name} }},
}

// Names may contain slashes, but for plain names: those of colos and nodes stand between slashes in keys, and name
// folders.
const (
	namePattern      = `[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}`
	plainNamePattern = `[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}`
)

func isPlain(placeholder string) bool { return placeholder == "<colo>" || placeholder == "<node>" }

func kindOf(name fleet.Kind) (kind, bool) {
	for _, k := range kinds {
		if k.Kind == name {
			return k, true
		}
	}
	return kind{}, false
}

// Interdependent returns the kinds of documents that operators alone write and that have a meaning for other documents. API keys have
// none; endpoints are also written by registrars.
func Interdependent() []fleet.Kind {
	var all []fleet.Kind
	for _, k := range kinds {
		switch {
		case k.OfNode(), k.Kind == fleet.KindEndpoint, k.Kind == fleet.KindAPIKey, k.Kind == fleet.KindDeletions:
		default:
			all = append(all, k.Kind)
		}
	}
	return all
}

// placeholders returns the names in the form of the key, such as <colo> and <endpoint>.
func (k kind) placeholders() []string { return strings.Split(k.form, "/")[1:] }

// pattern returns a regular expression for the keys of the kind.
func (k kind) pattern() string {
	pattern := "^" + string(k.Kind)
	for _, placeholder := range k.placeholders() {
		if isPlain(placeholder) {
			pattern += "/" + plainNamePattern
		} else {
			pattern += "/" + namePattern
		}
	}
	return pattern + "$"
}

// keyForms lists the forms of keys.
func keyForms() string {
	forms := make([]string, 0, len(kinds))
	for _, k := range kinds {
		forms = append(forms, k.form)
	}
	return strings.Join(forms, ", ")
}

// identity is a parsed key. Colo is set for endpoints and servers only; Name is empty for documents whose kind is their whole key.
type identity struct {
	Kind       fleet.Kind
	Colo, Name string
}

// blank returns a pointer to the struct that the document is decoded into.
func (id identity) blank() any {
	k, _ := kindOf(id.Kind)
	return k.noun(id)
}

// parseKey parses a key and checks the names in it.
func parseKey(key string) (identity, *fieldError) {
	name, rest, hasRest := strings.Cut(key, "/")
	k, known := kindOf(fleet.Kind(name))
	names := k.placeholders()
	if fleet.Kind(name) == fleet.KindRecord {
		return identity{}, &fieldError{Reason: "not a document, but the record of a colo server's process, which alone writes it; " +
			"it can be printed and deleted (colonnade config get, config delete)"}
	}
	if fleet.Kind(name) == fleet.KindHistory {
		return identity{}, &fieldError{Reason: "not a document, but a part of the history of changes, which the command line writes with each change; " +
			"colonnade config history shows it"}
	}
	if fleet.Kind(name) == fleet.KindStaged {
		return identity{}, &fieldError{Reason: "not a document, but a change that a node tries before all others; colonnade config apply -canary puts it, " +
			"and takes it away when it ends"}
	}
	if !known || hasRest && len(names) == 0 {
		return identity{}, &fieldError{Reason: "unknown kind of document; the key must be one of " + keyForms()}
	}
	id := identity{Kind: k.Kind, Name: rest}
	if len(names) == 0 {
		return id, nil
	}
	if len(names) == 2 {
		var found bool
		if id.Colo, id.Name, found = strings.Cut(rest, "/"); !found {
			return id, &fieldError{Reason: "the key must be " + k.form}
		}
		if err := checkKeyName(names[0], id.Colo); err != nil {
			return id, err
		}
	}
	if k.Kind == fleet.KindAPIKey {
		return id, checkAPIKeyID(id.Name)
	}
	return id, checkKeyName(names[len(names)-1], id.Name)
}

func checkKeyName(placeholder, name string) *fieldError {
	switch {
	case isPlain(placeholder) && strings.Contains(name, "/"):
		return &fieldError{Value: quote(name), Reason: "the name of a colo or of a node must not contain a slash"}
	case !validName(name):
		return &fieldError{Value: quote(name), Reason: "in the key: " + acceptedName}
	}
	return nil
}
