package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/problems"
)

var (
	editQuery = []parameter{
		{"force", "Also if the change takes a model out of service, or deletes more than nodes do without a confirmation.", schema{"type": "boolean"}},
		{"dry_run", "Change nothing, and answer what would change.", schema{"type": "boolean"}},
	}
	ignoreUnreachableQuery = parameter{"ignore_unreachable", "With force, also if other nodes do not say which deletions they hold back: the confirmation of this deletion would confirm those too.", schema{"type": "boolean"}}
	ifMatch                = parameter{"If-Match", "The ETag that the document must have, or * if it must exist; else the answer is 412.", schema{"type": "string"}}
	ifNoneMatch            = parameter{"If-None-Match", "* if the document must not exist; else the answer is 412.", schema{"type": "string"}}
	editErrors             = []int{http.StatusPreconditionFailed, http.StatusConflict, http.StatusMethodNotAllowed}
)

func (a *api) putRoute(k document.KindInfo) route {
	description := "The document is checked by itself, and then the fleet as it would be, as by colonnade config apply. A change that takes a model out of service is refused with 409 unless it is forced."
	if k.Kind == fleet.KindAPIKey {
		description += " To make a key, use POST."
	}
	return route{
		id: "put" + titled(k, true), method: http.MethodPut, path: documentPath(k), slashes: k.Slashes, tag: string(k.Kind), summary: "Put the document " + k.Form,
		description: description, query: editQuery, header: []parameter{ifMatch, ifNoneMatch},
		body: &content{k.About + " The key may be left out.", map[string]schema{typeJSON: ref(string(k.Kind)), typeYAML: ref(string(k.Kind))}},
		answers: []result{
			{http.StatusOK, []parameter{etagHeader}, asJSON("The document was changed, or is the same as before, or this was a dry run.", ref("Change"))},
			{http.StatusCreated, []parameter{etagHeader}, asJSON("The document was created.", ref("Change"))},
		},
		errors: append([]int{http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge}, editErrors...),
		handle: func(c *call) (*answer, error) {
			key, err := c.key(k)
			if err != nil {
				return nil, err
			}
			doc, err := c.readDocument(key)
			if err != nil {
				return nil, err
			}
			return a.edit(c, key, func(etcd.Stored, bool) (etcd.Edit, error) { return etcd.Edit{Put: []document.Raw{doc}}, nil })
		},
	}
}

func (a *api) deleteRoute(k document.KindInfo) route {
	return route{
		id: "delete" + titled(k, true), method: http.MethodDelete, path: documentPath(k), slashes: k.Slashes, tag: string(k.Kind), summary: "Delete the document " + k.Form,
		description: "A deletion that takes a model out of service, or that nodes would hold back as a mistake, is refused with 409 unless it is forced; then it is confirmed in the same step. " +
			"That confirmation is refused with 409 if it would confirm other deletions that nodes hold back, or if a node does not say which it holds back.",
		query: append(slices.Clone(editQuery), ignoreUnreachableQuery), header: []parameter{ifMatch},
		answers: []result{{status: http.StatusOK, content: asJSON("The document was deleted, or this was a dry run.", ref("Change"))}},
		errors:  append([]int{http.StatusNotFound}, editErrors...),
		handle: func(c *call) (*answer, error) {
			key, err := c.key(k)
			if err != nil {
				return nil, err
			}
			return a.edit(c, key, func(_ etcd.Stored, there bool) (etcd.Edit, error) {
				if !there {
					return etcd.Edit{}, notFound(key)
				}
				return etcd.Edit{Delete: []string{key}}, nil
			})
		},
	}
}

// changed is the answer to a change of a document.
type changed struct {
	Key         string             `json:"key"`
	Action      string             `json:"action"` // created, changed, unchanged or deleted
	DryRun      bool               `json:"dry_run,omitempty"`
	ETag        string             `json:"etag,omitempty"`
	Revision    int64              `json:"revision,omitempty"`
	Where       string             `json:"where,omitempty"`
	Differences []difference       `json:"differences"`
	Problems    []problems.Problem `json:"problems"`
	Note        string             `json:"note,omitempty"`
}

type difference struct {
	Field string `json:"field"`
	Old   any    `json:"old,omitempty"`
	New   any    `json:"new,omitempty"`
}

func changeSchema() schema {
	return object("A change that a request has made, or with dry_run, that it would make.",
		"key", text("Key of the document."), "action", schema{"type": "string", "enum": []string{"created", "changed", "unchanged", "deleted"}},
		"dry_run?", schema{"type": "boolean"}, "etag?", text("ETag of the document as it is now."),
		"revision?", schema{"type": "integer", "description": "Revision of etcd with the change, as in colonnade config history."},
		"where?", text("File in which the document stands, if documents are in files."),
		"differences", array(object("A field that has changed.", "field", text("Such as queue.limit."), "old?", schema{}, "new?", schema{})),
		"problems", array(ref("Problem")), "note?", text("Something else to know."))
}

// edit carries out a change of one document, which decide returns if the conditions of the request hold.
func (a *api) edit(c *call, key string, decide func(before etcd.Stored, there bool) (etcd.Edit, error)) (*answer, error) {
	var p change.Plan
	ignoreUnreachable, err := c.flag("ignore_unreachable")
	if err != nil {
		return nil, err
	}
	p.CheckConfirm = func(ctx context.Context, deleted []string) error {
		return a.checkConfirm(ctx, deleted, ignoreUnreachable)
	}
	if p.Force, err = c.flag("force"); err != nil {
		return nil, err
	}
	if p.DryRun, err = c.flag("dry_run"); err != nil {
		return nil, err
	}
	store, err := a.store(c)
	if err != nil {
		return nil, err
	}
	var before etcd.Stored
	var there bool
	p.Decide = func(_ context.Context, all []etcd.Stored) (etcd.Edit, error) {
		before, there = change.WithKey(all, key)
		if err := c.conditions().check(key, before, there); err != nil {
			return etcd.Edit{}, err
		}
		e, err := decide(before, there)
		if err != nil {
			return etcd.Edit{}, err
		}
		e.Put, err = change.Unmarked(all, e.Put)
		return e, err
	}
	o, err := store.Apply(c.Context(), p)
	if err != nil {
		failed := asError(err)
		if refused := (*change.RefusedError)(nil); errors.As(err, &refused) {
			failed.Problems = o.Review.Added
		}
		return nil, failed
	}
	done := newChanged(key, before, there, &o)
	if done.DryRun = p.DryRun; !p.DryRun {
		a.Logger.Info("document "+done.Action+" by the admin API", "user", c.user, "key", key, "revision", done.Revision) //nolint:sloglint // one of four
	}
	return done.answer(), nil
}

// newChanged says what became of a document.
func newChanged(key string, before etcd.Stored, there bool, o *change.Outcome) *changed {
	done := &changed{Key: key, Action: etcd.ActionCreated, Revision: o.Done.Newest, Differences: []difference{}, Problems: append([]problems.Problem{}, o.Review.Added...)}
	if there {
		done.Action, done.ETag = etcd.ActionChanged, etagOf(before)
	}
	for _, d := range change.Differences(o.Before, o.Edit) {
		for _, f := range d.Fields {
			done.Differences = append(done.Differences, difference{f.Field, f.Old, f.New})
		}
	}
	if len(o.Edit.Delete) > 0 {
		done.Action, done.ETag = etcd.ActionDeleted, ""
		if before.Leased {
			done.Note = "the document was registered under a lease: nodes use the endpoint while its engine is healthy, and its registrar may put it again"
		}
	}
	for _, put := range o.Done.Applied {
		done.ETag = etagOf(etcd.Stored{Revision: o.Done.Newest, Value: put.Value})
		if o.Done.Newest == 0 && before.Revision > 0 {
			done.ETag = etagOf(before)
		}
		if done.Where = strings.TrimPrefix(put.Where, " at "); put.Unchanged || there && done.ETag == etagOf(before) {
			done.Action = "unchanged"
		}
	}
	return done
}

func (d *changed) answer() *answer {
	done := &answer{body: d, header: map[string]string{}}
	if d.ETag != "" {
		done.header["ETag"] = d.ETag
	}
	if d.Action == etcd.ActionCreated && !d.DryRun {
		done.status = http.StatusCreated
	}
	return done
}
