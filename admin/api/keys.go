package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"colonnade/accounts"
	"colonnade/change"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// newKey is the body of a request for a new API key.
type newKey struct {
	Account string `json:"account"`
	Role    string `json:"role,omitempty"`
	ID      string `json:"id,omitempty"`
	Expires string `json:"expires,omitempty"`
}

// createdKey is the answer. It is the only place in which the key ever stands.
type createdKey struct {
	Key      string    `json:"key"`
	ID       string    `json:"id"`
	Account  string    `json:"account,omitempty"`
	Role     string    `json:"role,omitempty"`
	Document string    `json:"document"`
	Expires  time.Time `json:"expires,omitzero"`
	Note     string    `json:"note,omitempty"`
}

func (a *api) keyRoutes() []route {
	return []route{{
		id: "createAPIKey", method: http.MethodPost, path: "/" + string(fleet.KindAPIKey), tag: string(fleet.KindAPIKey), summary: "Make an API key",
		description: "The answer has the key, once; only its hash is kept, in the document keys/<id>. An existing key of the id is never replaced.",
		body:        &content{"Account or role of the key.", map[string]schema{typeJSON: ref("NewKey")}},
		answers:     []result{{status: http.StatusCreated, content: asJSON("The key.", ref("CreatedKey"))}},
		errors:      []int{http.StatusConflict, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge},
		handle:      a.createKey,
	}}
}

func newKeySchema() schema {
	s := object("An API key to make.",
		"account?", text("Account that the key is for. Required without a role."),
		"role?", schema{"type": "string", "enum": []string{fleet.RoleWorker}, "description": "worker: a key that registers engines, and is for no requests and no account."},
		"id?", text("ID of the key; without it a random one."),
		"expires?", text("End of the key: a duration such as 720h, a day (UTC) such as 2027-01-31, or a time; without it never."))
	s["additionalProperties"] = false
	return s
}

func createdKeySchema() schema {
	return object("An API key.",
		"key", text("The key, which clients send. It is not shown again."), "id", text("ID of the key."), "account?", text("Account that the key is for."), "role?", text("Role of the key."),
		"document", text("Key of the document, such as keys/laptop: DELETE revokes the API key."), "expires?", schema{"type": "string", "format": "date-time"},
		"note?", text("Something else to know."))
}

func (a *api) createKey(c *call) (*answer, error) {
	var want newKey
	if err := c.readJSON(&want); err != nil {
		return nil, err
	}
	expires, err := want.check(time.Now())
	if err != nil {
		return nil, err
	}
	store, err := a.store(c)
	if err != nil {
		return nil, err
	}
	key, entry := want.make(time.Now(), expires)
	doc, err := document.EncodeAPIKey(&entry)
	if err != nil {
		return nil, err
	}
	created := createdKey{Key: key, ID: entry.ID, Account: want.Account, Role: want.Role, Document: doc.Key, Expires: expires}
	if want.Account != "" {
		account, err := store.List(c.Context(), fleet.KindAccount.Key(want.Account))
		if err == nil && len(account) == 0 {
			created.Note = "account " + want.Account + " has no document, so it has the defaults"
		}
	}
	switch _, err := store.Create(c.Context(), doc); {
	case errors.Is(err, change.ErrExists):
		return nil, &Error{Status: http.StatusConflict, Field: "id", Message: fmt.Sprintf("id: a key of the id %s exists; choose another id, or delete %s first", entry.ID, doc.Key)}
	case err != nil:
		return nil, err
	}
	a.Logger.Info("API key made by the admin API", "user", c.user, "key", doc.Key, "account", want.Account, "role", want.Role)
	return &answer{status: http.StatusCreated, body: created}, nil
}

// check returns when the key expires.
func (w *newKey) check(now time.Time) (time.Time, error) {
	if err := w.checkOwner(); err != nil {
		return time.Time{}, err
	}
	if w.ID != "" {
		if err := checkName("id", fleet.KindAPIKey.Key(w.ID)); err != nil {
			return time.Time{}, err
		}
	}
	expires, err := accounts.ParseExpiry(w.Expires, now)
	if err != nil {
		return expires, errBadRequest("expires", fmt.Sprintf("expires: %.100q: %v", w.Expires, err))
	}
	return expires, nil
}

// checkOwner checks what the key is for.
func (w *newKey) checkOwner() error {
	switch {
	case w.Role != "" && w.Role != fleet.RoleWorker:
		return errBadRequest("role", fmt.Sprintf("role: %.100q: must be %s; leave it out for a key that sends requests", w.Role, fleet.RoleWorker))
	case w.Role != "" && w.Account != "":
		return errBadRequest("account", "account: a key with the role "+fleet.RoleWorker+" belongs to no account; take one of the two out")
	case w.Role != "":
		return nil
	case w.Account == "":
		return errBadRequest("account", `account: missing; name the account that the key is for, such as {"account": "acme"}`)
	case strings.HasPrefix(w.Account, "cn_") || strings.HasPrefix(w.Account, "sk-"):
		return errBadRequest("account", "account: looks like an API key, and is not repeated here; give the name of an account")
	}
	return checkName("account", fleet.KindAccount.Key(w.Account))
}

// make makes the key and its document.
func (w *newKey) make(now, expires time.Time) (key string, entry fleet.APIKey) {
	now = now.UTC().Truncate(time.Second)
	if w.Role == fleet.RoleWorker {
		return accounts.NewWorkerKey(w.ID, now, expires)
	}
	return accounts.NewKey(w.Account, w.ID, now, expires)
}

// checkName checks a name by the key of its document. The error does not repeat what looks like an API key.
func checkName(field, key string) error {
	var invalid *document.InvalidError
	if errors.As(document.CheckKey(key), &invalid) {
		return errBadRequest(field, field+": "+invalid.Reason)
	}
	return nil
}
