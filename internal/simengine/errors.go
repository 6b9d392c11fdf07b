package simengine

import (
	"net/http"
	"strconv"
)

// apiError is an error in the form in which clients get it.
type apiError struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"` // a string or nil
	Code    any    `json:"code"`  // a string or, as in real engines, the HTTP status
}

func (e apiError) Error() string { return e.Message }

func badRequest(param, message string) apiError {
	e := apiError{Status: http.StatusBadRequest, Type: "BadRequestError", Code: http.StatusBadRequest, Message: message}
	if param != "" {
		e.Param = param
	}
	return e
}

func modelNotFound(model string) apiError {
	return apiError{Status: http.StatusNotFound, Type: "invalid_request_error", Param: "model", Code: "model_not_found",
		Message: "this engine does not serve the model " + strconv.Quote(model)}
}

// body returns the error as a whole answer, or as the data of an event.
func (e apiError) body() []byte {
	return marshal(struct {
		Error apiError `json:"error"`
	}{e})
}

func writeError(w http.ResponseWriter, e apiError) { writeJSON(w, e.Status, e.body()) }

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the client has left
}
