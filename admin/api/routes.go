package api

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// base is where the API is mounted.
const base = "/api/v1"

// schema is a JSON Schema (draft 2020-12).
type schema map[string]any

// route is one operation of the API. The dispatcher and the OpenAPI document are made from the table of routes.
type route struct {
	id          string // operationId, unique
	method      string
	path        string // below base, with names of the path as OpenAPI writes them: /models/{model}
	slashes     bool   // the last name of the path may have slashes, as they are or as %2F; any other only as %2F
	tag         string // group of operations
	summary     string // one line
	description string // more; may be empty
	query       []parameter
	header      []parameter
	body        *content      // nil = the request has no body
	answers     []result      // those that are no error
	errors      []int         // statuses, besides those that any operation may have
	open        bool          // needs no token
	workers     bool          // for API keys with the role worker, too
	maxBody     int           // bytes; 0 = maxBody
	timeout     time.Duration // for the whole operation; 0 = requestTimeout
	handle      func(*call) (*answer, error)
}

// parameter is one of a query, or a header. A parameter of a query is refused if the route does not have it.
type parameter struct {
	name, description string
	schema            schema
}

// content is a body, by media type.
type content struct {
	description string
	types       map[string]schema
}

// result is an answer that is no error.
type result struct {
	status int
	header []parameter
	content
}

// The media types of bodies.
const (
	typeJSON = "application/json"
	typeYAML = "application/yaml"
)

// asJSON returns a body of one schema.
func asJSON(description string, s schema) content {
	return content{description, map[string]schema{typeJSON: s}}
}

// ref refers to a schema of the OpenAPI document.
func ref(name string) schema { return schema{"$ref": refs + name} }

// object is the schema of an object. properties are pairs of a name and a schema; names that end in ? are not required.
func object(description string, properties ...any) schema {
	fields, required := schema{}, []string{}
	for i := 0; i+1 < len(properties); i += 2 {
		name, optional := strings.CutSuffix(properties[i].(string), "?") //nolint:forcetypeassert // pairs, in the table
		fields[name] = properties[i+1]
		if !optional {
			required = append(required, name)
		}
	}
	return schema{"type": "object", "description": description, "properties": fields, "required": required}
}

// text is the schema of a text.
func text(description string) schema { return schema{"type": "string", "description": description} }

// array is the schema of a list.
func array(items schema) schema { return schema{"type": "array", "items": items} }

// names returns the names in the path, such as model.
func (r *route) names() (all []string) {
	for part := range strings.SplitSeq(r.path, "/") {
		if name, is := strings.CutPrefix(part, "{"); is {
			all = append(all, strings.TrimSuffix(name, "}"))
		}
	}
	return all
}

// pattern returns the pattern of the route for http.ServeMux.
func (r *route) pattern() string {
	path := r.path
	if r.slashes {
		path = strings.TrimSuffix(path, "}") + "...}"
	}
	return r.method + " " + base + path
}

// methods are all that a route may have.
var methods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}

// routes is the table.
func (a *api) routes() []route {
	return slices.Concat(a.documentRoutes(), a.keyRoutes(), a.actionRoutes(), a.registrationRoutes(), a.openAPIRoutes())
}
