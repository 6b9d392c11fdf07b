package api

import (
	"context"
	"errors"
	"net/http"

	"colonnade/change"
	"colonnade/discovery/files"
	"colonnade/fleet/document"
	"colonnade/problems"
)

// Error is an error that a client gets, as JSON below "error".
type Error struct {
	Status   int                `json:"-"`
	Header   map[string]string  `json:"-"`
	Message  string             `json:"message"`            // says what is wrong and what to do
	Field    string             `json:"field,omitempty"`    // of the document, the query or the body, such as queue.limit
	Problems []problems.Problem `json:"problems,omitempty"` // that a refused change would add
}

func (e *Error) Error() string { return e.Message }

// errBadRequest returns an error about one field of a request; an empty field is the request as a whole.
func errBadRequest(field, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Field: field, Message: message}
}

// asError returns an error as clients get it.
func asError(err error) *Error {
	var known *Error
	var invalid *document.InvalidError
	var refused *change.RefusedError
	var conflict *change.ConflictError
	var inFiles *files.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &invalid):
		return errBadRequest(invalid.Field, invalid.Error())
	case errors.As(err, &refused):
		return &Error{Status: http.StatusConflict, Message: refused.Error() + "; correct the document, or repeat this with ?force=true if it is intended"}
	case errors.As(err, &conflict):
		return &Error{Status: http.StatusConflict, Message: conflict.What + "; get the document again, and repeat the change on that"}
	case errors.As(err, &inFiles):
		return &Error{Status: http.StatusConflict, Message: "the files of the documents have to be corrected first: " + err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{Status: http.StatusServiceUnavailable, Message: "the store of the documents does not answer; try again: " + err.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error()}
}
