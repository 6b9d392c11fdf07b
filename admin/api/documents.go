package api

import (
	"fmt"
	"net/http"
	"strings"

	"colonnade/change"
	"colonnade/fleet/document"
)

// kindsText lists the paths of documents.
func (a *api) kindsText() string {
	var forms []string
	for _, k := range document.OperatorKinds() {
		forms = append(forms, base+"/"+k.Form)
	}
	return fmt.Sprintf("documents are at %s; %s%s describes all operations", strings.Join(forms, ", "), base, openAPIPath)
}

func (a *api) documentRoutes() []route { return nil }

func (a *api) keyRoutes() []route { return nil }

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
