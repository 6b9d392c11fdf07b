package sinks

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const headerBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Auth puts the credential of a sink into requests, as its setting auth says.
type Auth struct {
	how        string // bearer, basic, or header:NAME
	credential func() (string, error)
}

// NewAuth returns the Auth of a sink over HTTP.
func NewAuth(s *Spec, e Environment) (*Auth, error) {
	if err := checkAuth(s.Params["auth"], e.Credential != nil); err != nil {
		return nil, err
	}
	return &Auth{how: s.Param("auth", "bearer"), credential: e.Credential}, nil
}

// checkAuth checks the setting auth; empty = it is not set.
func checkAuth(how string, hasCredential bool) error {
	name, isHeader := strings.CutPrefix(how, "header:")
	switch {
	case how == "":
		return nil
	case how != "bearer" && how != "basic" && (!isHeader || strings.Trim(name, headerBytes) != "" || name == ""):
		return fmt.Errorf("auth=%s: must be bearer, basic (the credential is USER:PASSWORD) or header:NAME", how)
	case !hasCredential:
		return fmt.Errorf("auth=%s: there is no credential: add credential=env:NAME or credential=file:PATH", how)
	}
	return nil
}

// Check reads the credential, so that one that is missing is known without an event.
func (a *Auth) Check() error {
	return a.Authorize(&http.Request{Header: http.Header{}})
}

// Authorize adds the credential as it is now to a request.
func (a *Auth) Authorize(r *http.Request) error {
	if a.credential == nil {
		return nil
	}
	secret, err := a.credential()
	if err != nil {
		return err
	}
	if header, ok := strings.CutPrefix(a.how, "header:"); ok {
		r.Header.Set(header, secret)
		return nil
	}
	if a.how == "bearer" {
		r.Header.Set("Authorization", "Bearer "+secret)
		return nil
	}
	user, password, ok := strings.Cut(secret, ":")
	if !ok {
		return errors.New("auth=basic: the credential must be USER:PASSWORD")
	}
	r.SetBasicAuth(user, password)
	return nil
}
