package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// defaultLimit and maxLimit bound the documents of one list.
const (
	defaultLimit = 1000
	maxLimit     = 10_000
)

// kindsText lists the paths of documents.
func kindsText() string {
	var forms []string
	for _, k := range document.OperatorKinds() {
		forms = append(forms, base+"/"+k.Form)
	}
	return fmt.Sprintf("documents are at %s; %s%s describes all operations", strings.Join(forms, ", "), base, openAPIPath)
}

// store returns the documents, with the user of a request as the author of changes.
func (a *api) store(c *call) (*change.Documents, error) {
	if a.Documents == nil {
		return nil, &Error{Status: http.StatusConflict, Message: a.NoStore}
	}
	d := *a.Documents
	d.Author.User = c.user + " via the admin API of " + a.Node
	d.Author.Command = c.Method + " " + c.URL.Path
	return &d, nil
}

// key returns the key of the document that the path of a request names.
func (c *call) key(k document.KindInfo) (string, error) {
	parts := []string{string(k.Kind)}
	for _, name := range k.Placeholders() {
		parts = append(parts, c.PathValue(name))
	}
	key := strings.Join(parts, "/")
	return key, document.CheckKey(key)
}

// documentPath is the path of a kind's documents.
func documentPath(k document.KindInfo) string {
	return "/" + strings.NewReplacer("<", "{", ">", "}").Replace(k.Form)
}

// titled returns the name of a kind for operation ids, such as Model.
func titled(k document.KindInfo, one bool) string {
	name := string(k.Kind)
	if one && k.Form != name {
		name = strings.TrimSuffix(name, "s")
	}
	if k.Kind == fleet.KindAPIKey {
		name = "API" + strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

var etagHeader = parameter{"ETag", "Changes with each change of the document; for If-Match.", schema{"type": "string"}}

func (a *api) documentRoutes() (all []route) {
	for _, k := range document.OperatorKinds() {
		names := k.Placeholders()
		for depth := range names {
			all = append(all, a.listRoute(k, names[:depth]))
		}
		all = append(all, a.getRoute(k), a.putRoute(k), a.deleteRoute(k))
	}
	return all
}

// listRoute lists the documents of a kind below the folder that the first names of their keys make.
func (a *api) listRoute(k document.KindInfo, folder []string) route {
	path, id, of := "/"+string(k.Kind), "list"+titled(k, false), ""
	for _, name := range folder {
		path, id, of = path+"/{"+name+"}", id+"Of"+strings.ToUpper(name[:1])+name[1:], " of one "+name
	}
	return route{
		id: id, method: http.MethodGet, path: path, tag: string(k.Kind), summary: "List documents " + k.Form + of,
		description: "As YAML, a file of documents that colonnade config apply takes. A list is sorted by key.",
		query: []parameter{
			{"after", "List only documents whose keys stand after this one, as next of the list before has it.", schema{"type": "string"}},
			{"limit", fmt.Sprintf("The largest number of documents; without it %d.", defaultLimit), schema{"type": "integer", "minimum": 1, "maximum": maxLimit}},
		},
		answers: []result{{status: http.StatusOK, content: content{"The documents.", map[string]schema{typeJSON: listSchema(k), typeYAML: {"description": "Documents, separated by ---."}}}}},
		errors:  []int{http.StatusNotAcceptable, http.StatusConflict},
		handle: func(c *call) (*answer, error) {
			under := string(k.Kind) + "/"
			for _, name := range folder {
				under += c.PathValue(name) + "/"
			}
			return a.list(c, under)
		},
	}
}

func (a *api) getRoute(k document.KindInfo) route {
	return route{
		id: "get" + titled(k, true), method: http.MethodGet, path: documentPath(k), slashes: k.Slashes, tag: string(k.Kind), summary: "Get the document " + k.Form,
		description: "As JSON, the fields as they are written, without defaults, and the key. As YAML, the text as it is stored, with its comments.",
		header:      []parameter{{"If-None-Match", "The answer is 304 if the document has this ETag.", schema{"type": "string"}}},
		answers: []result{
			{http.StatusOK, []parameter{etagHeader}, content{k.About, map[string]schema{typeJSON: ref(string(k.Kind)), typeYAML: ref(string(k.Kind))}}},
			{status: http.StatusNotModified, content: content{description: "The document has not changed."}},
		},
		errors: []int{http.StatusNotFound, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnprocessableEntity},
		handle: func(c *call) (*answer, error) {
			key, err := c.key(k)
			if err != nil {
				return nil, err
			}
			return a.get(c, key)
		},
	}
}

// find returns documents of the store below a folder or with a key, sorted. Bad documents in files leave the good ones.
func (a *api) find(c *call, under string) ([]etcd.Stored, error) {
	store, err := a.store(c)
	if err != nil {
		return nil, err
	}
	found, err := store.List(c.Context(), under)
	if err != nil && len(found) > 0 && store.InFiles() {
		err = nil
	}
	return found, err
}

// listed is a document of a list.
type listed struct {
	Key        string         `json:"key"`
	ETag       string         `json:"etag"`
	Registered bool           `json:"registered,omitempty"`
	Invalid    string         `json:"invalid,omitempty"`
	Document   map[string]any `json:"document,omitempty"`
}

func (a *api) list(c *call, under string) (*answer, error) {
	media, err := c.wanted()
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return nil, err
	}
	found, err := a.find(c, under)
	if err != nil {
		return nil, err
	}
	if after := c.URL.Query().Get("after"); after != "" {
		found = slices.DeleteFunc(found, func(d etcd.Stored) bool { return d.Key <= after })
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1].Key
	}
	if media == typeYAML {
		return &answer{text: asFile(found, next), media: typeYAML}, nil
	}
	list := struct {
		Documents []listed `json:"documents"`
		Next      string   `json:"next,omitempty"`
	}{Documents: []listed{}, Next: next}
	for _, d := range found {
		one := listed{Key: d.Key, ETag: etagOf(d), Registered: change.IsRegistered(d)}
		if one.Document, err = fieldsOf(d); err != nil {
			one.Invalid = err.Error()
		}
		list.Documents = append(list.Documents, one)
	}
	return &answer{body: list}, nil
}

// asFile returns documents as a file. Of those that nodes do not accept, or that no file can hold, it has the reason as a comment.
func asFile(docs []etcd.Stored, next string) []byte {
	var good []document.Raw
	var bad []error
	for _, d := range docs {
		if err := document.Check(d.Key, d.Value); err != nil {
			bad = append(bad, err)
		} else {
			good = append(good, document.Raw{Key: d.Key, Value: d.Value})
		}
	}
	text, err := document.JoinFile(good)
	for _, err := range append(bad, err) {
		if err != nil {
			text = append(text, "# not accepted: "+strings.ReplaceAll(err.Error(), "\n", "\n# ")+"\n"...)
		}
	}
	if next != "" {
		text = append(text, "# there are more: ?after="+next+"\n"...)
	}
	return text
}

// fieldsOf returns the fields of a document with its key, or why nodes do not accept it.
func fieldsOf(d etcd.Stored) (map[string]any, error) {
	if err := document.Check(d.Key, d.Value); err != nil {
		return nil, err
	}
	fields, err := document.Fields(d.Key, d.Value)
	if err == nil {
		fields["key"] = d.Key
	}
	return fields, err
}

func (a *api) get(c *call, key string) (*answer, error) {
	media, err := c.wanted()
	if err != nil {
		return nil, err
	}
	found, err := a.find(c, key)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, notFound(key)
	}
	d := found[0]
	done := &answer{header: map[string]string{"ETag": etagOf(d), "Vary": "Accept"}}
	if none := c.conditions().noneMatch; none != "" && matches(none, etagOf(d)) {
		done.status = http.StatusNotModified
		return done, nil
	}
	if media == typeYAML {
		done.text, done.media = d.Value, typeYAML
		return done, nil
	}
	fields, err := fieldsOf(d)
	if err != nil {
		return nil, &Error{Status: http.StatusUnprocessableEntity, Message: "nodes do not accept this document: " + err.Error() + "; get its text with Accept: " + typeYAML}
	}
	done.body = fields
	return done, nil
}

func notFound(key string) *Error {
	return &Error{Status: http.StatusNotFound, Message: "there is no document " + key}
}

func listSchema(k document.KindInfo) schema {
	return object("Documents, sorted by key.",
		"documents", array(object("A document.",
			"key", text("Key, such as "+k.Form+"."), "etag", text("For If-Match."),
			"registered?", schema{"type": "boolean", "description": "A registrar keeps the document under a lease."},
			"invalid?", text("Reason why nodes do not accept the document; then there is no document here."),
			"document?", ref(string(k.Kind)))),
		"next?", text("There are more documents: list them with ?after= and this key."))
}

// checkConfirm is the function of the configuration; nil for files.
func (a *api) checkConfirm(ctx context.Context, deleted []string, ignoreUnreachable bool) error {
	if a.CheckConfirm == nil {
		return nil
	}
	err := a.CheckConfirm(ctx, deleted, ignoreUnreachable)
	if err != nil && ctx.Err() == nil {
		return &Error{Status: http.StatusConflict, Message: "nothing was changed: " + err.Error()}
	}
	return err
}
