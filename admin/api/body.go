package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"colonnade/fleet/document"
)

// maxBody bounds bodies, in bytes: a document, and its key beside it.
const maxBody = document.MaxSize + 1<<10

// mediaTypes are the types of bodies, by the names that clients use for them.
var mediaTypes = map[string]string{typeJSON: typeJSON, typeYAML: typeYAML, "application/x-yaml": typeYAML, "text/yaml": typeYAML, "text/x-yaml": typeYAML}

// read returns the body of a request and its type, which is one of accepted.
func (c *call) read(accepted ...string) (body []byte, media string, err error) {
	header := c.Header.Get("Content-Type")
	name, _, _ := mime.ParseMediaType(header)
	media = mediaTypes[name]
	if !slices.Contains(accepted, media) {
		return nil, "", &Error{Status: http.StatusUnsupportedMediaType, Field: "Content-Type",
			Message: fmt.Sprintf("the header Content-Type is %.100q: send one of %s", header, strings.Join(accepted, ", "))}
	}
	if encoding := c.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, "", &Error{Status: http.StatusUnsupportedMediaType, Field: "Content-Encoding", Message: "the body must not be compressed"}
	}
	body, err = io.ReadAll(http.MaxBytesReader(nil, c.Body, int64(c.most)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, "", &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body has more than %d bytes: a document has at most %d", c.most, document.MaxSize)}
	case err != nil:
		return nil, "", errBadRequest("", "cannot read the body: "+err.Error())
	case len(bytes.TrimSpace(body)) == 0:
		return nil, "", errBadRequest("", "the request has no body; send {} for a document that has all defaults")
	}
	if media == typeJSON {
		err = checkJSON(body)
	}
	return body, media, err
}

// checkJSON says where JSON ends to be JSON. A cut body is not taken for YAML.
func checkJSON(body []byte) error {
	var value json.RawMessage
	err := json.Unmarshal(body, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(body[:min(int(syntax.Offset), len(body))], []byte("\n"))
		return errBadRequest("", fmt.Sprintf("the body is not valid JSON (line %d): %v", line, err))
	case err != nil:
		return errBadRequest("", "the body is not valid JSON: "+err.Error())
	}
	return nil
}

// readJSON reads the body of a request into a struct, and refuses fields that it does not have.
func (c *call) readJSON(into any) error {
	body, _, err := c.read(typeJSON)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	var kind *json.UnmarshalTypeError
	switch err := decoder.Decode(into); {
	case errors.As(err, &kind):
		return errBadRequest(kind.Field, fmt.Sprintf("%s: must be a %s, and not a %s", kind.Field, kind.Type, kind.Value))
	case err != nil:
		name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
		if unknown {
			return errBadRequest(strings.Trim(name, `"`), "unknown field "+name+" in the body")
		}
		return errBadRequest("", "the body cannot be read: "+err.Error())
	}
	return nil
}

// readDocument reads a document for a key. The body may have the key too.
func (c *call) readDocument(key string) (document.Raw, error) {
	body, _, err := c.read(typeJSON, typeYAML)
	if err != nil {
		return document.Raw{}, err
	}
	doc, err := document.OwnKey(body)
	if err != nil {
		return doc, err
	}
	if doc.Key != "" && doc.Key != key {
		return doc, errBadRequest("key", fmt.Sprintf("key: the body has %.200q, and the path %q: they must be the same, or take the key out of the body", doc.Key, key))
	}
	doc.Key = key
	return doc, document.Check(key, doc.Value)
}

// wanted returns the type of the answer that the client accepts: that of several which it names first.
func (c *call) wanted() (media string, err error) {
	header := strings.Join(c.Header.Values("Accept"), ",")
	for part := range strings.SplitSeq(header, ",") {
		name, parameters, _ := mime.ParseMediaType(part)
		switch media := mediaTypes[name]; {
		case parameters["q"] == "0":
		case media != "":
			return media, nil
		case name == "*/*", name == "application/*", strings.TrimSpace(header) == "":
			return typeJSON, nil
		}
	}
	return "", &Error{Status: http.StatusNotAcceptable, Field: "Accept", Message: fmt.Sprintf("the header Accept is %.100q: the answer is %s or %s", header, typeJSON, typeYAML)}
}
