package adminapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

const maxAnswer = 64 << 10 // bytes

// refusedError is an error that goes on until an operator changes something.
type refusedError struct {
	status int // 0 = there was no answer
	text   string
}

// Error returns the text.
func (e *refusedError) Error() string { return e.text }

// call sends a request with the token, and reads its answer into a value unless that is nil. Neither the error nor anything else has the token.
func (k *client) call(ctx context.Context, server, method, path string, body, answer any) error {
	token, err := k.c.Token()
	if err != nil {
		return &refusedError{text: err.Error()}
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return &refusedError{text: "cannot write the registration: " + err.Error()}
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, server+path, content)
	if err != nil {
		return &refusedError{text: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := k.http.Do(request)
	if err != nil {
		return explain(server, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the answer of %s: %w", server, err)
	case response.StatusCode >= http.StatusMultipleChoices:
		return refusal(server, response.StatusCode, text)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return &refusedError{text: fmt.Sprintf("%s has answered something else than a node does: %v", server, err)}
	}
	return nil
}

// explain says what is wrong with a connection. A certificate that cannot be verified is a *refusedError.
func explain(server string, err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return &refusedError{text: fmt.Sprintf("cannot verify the certificate of %s: %v; name the file of its authority", server, unknown)}
	case errors.As(err, &host), errors.As(err, &invalid):
		return &refusedError{text: fmt.Sprintf("the certificate of %s is not valid: %v", server, err)}
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &refusedError{text: server + " does not speak HTTPS: give its URL with http://, or that of a proxy with a certificate in front of it"}
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // without the URL again
	}
	return fmt.Errorf("cannot reach %s: %w", server, err)
}

// refusal returns the error of an answer. A server that has trouble may have none later.
func refusal(server string, status int, text []byte) error {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	said, message := "", fmt.Sprintf("%s answered %d", server, status)
	if json.Unmarshal(text, &body) == nil && body.Error.Message != "" { // else it is no admin listener, or a proxy has answered
		said = ": " + body.Error.Message
	}
	message += said
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		message = fmt.Sprintf("%s refuses the token (%d)%s", server, status, said)
	case status == http.StatusNotFound, status == http.StatusNotImplemented, status < http.StatusBadRequest:
		message = fmt.Sprintf("%s registers no engines (%d)%s; give the URL of the admin listener of a colo server or of colonnade serve that is not older than this program",
			server, status, said)
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return errors.New(message)
	}
	return &refusedError{status: status, text: message}
}

// changeLog logs errors where they change, so that an outage has one line.
type changeLog struct {
	logger *slog.Logger
	last   string // empty = there is none
}

func (l *changeLog) failed(err error) {
	if text := err.Error(); text != l.last {
		l.last = text
		l.logger.Warn("cannot renew the registration of the engine; retrying", "error", err)
	}
}

func (l *changeLog) good() {
	if l.last != "" {
		l.last = ""
		l.logger.Info("the engine is registered again")
	}
}
