package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"colonnade/fleet/document"
)

const (
	openAPIPath = "/openapi.json"
	refs        = "#/components/schemas/" // begins references to schemas
)

func (a *api) openAPIRoutes() []route {
	return []route{{
		id: "getOpenAPI", method: http.MethodGet, path: openAPIPath, tag: "API", open: true,
		summary: "This description of the API, as OpenAPI 3.1",
		answers: []result{{status: http.StatusOK, content: asJSON("The description.", schema{"type": "object"})}},
		handle: func(*call) (*answer, error) {
			text, err := a.openAPI()
			return &answer{text: text, media: typeJSON}, err
		},
	}}
}

// describe returns the OpenAPI document.
func (a *api) describe() ([]byte, error) {
	schemas := map[string]any{"Error": errorSchema()}
	parts, err := document.Schemas(refs)
	if err != nil {
		return nil, err
	}
	for name, part := range parts {
		schemas[name] = part
	}
	for name, s := range ownSchemas() {
		schemas[name] = s
	}
	paths := map[string]map[string]any{}
	for i := range a.table {
		r := &a.table[i]
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][methodNames[r.method]] = r.describe()
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Colonnade admin API", "version": "1",
			"description": "Documents of the fleet, and actions on nodes and endpoints. Names with slashes stand in paths as they are at the end of a path, and with %2F elsewhere."},
		"servers":    []any{map[string]any{"url": base}},
		"security":   []any{map[string]any{"token": []any{}}},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas, "securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}},
	}, "", "  ")
}

// methodNames are the names of methods in OpenAPI.
var methodNames = map[string]string{http.MethodGet: "get", http.MethodPut: "put", http.MethodPost: "post", http.MethodDelete: "delete"}

// describe returns the operation of a route.
func (r *route) describe() map[string]any {
	parameters := []any{}
	for _, name := range r.names() {
		parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	for _, p := range r.query {
		parameters = append(parameters, map[string]any{"name": p.name, "in": "query", "description": p.description, "schema": p.schema})
	}
	for _, p := range r.header {
		parameters = append(parameters, map[string]any{"name": p.name, "in": "header", "description": p.description, "schema": p.schema})
	}
	answers := map[string]any{}
	for _, one := range r.answers {
		answers[strconv.Itoa(one.status)] = one.describe()
	}
	for _, status := range r.statuses() {
		failed := asJSON(http.StatusText(status)+".", schema{"type": "object", "properties": schema{"error": ref("Error")}, "required": []string{"error"}})
		answers[strconv.Itoa(status)] = result{content: failed}.describe()
	}
	o := map[string]any{"operationId": r.id, "tags": []string{r.tag}, "summary": r.summary, "parameters": parameters, "responses": answers}
	if r.description != "" {
		o["description"] = r.description
	}
	if r.open {
		o["security"] = []any{}
	}
	if r.body != nil {
		o["requestBody"] = map[string]any{"description": r.body.description, "required": true, "content": r.body.describe()}
	}
	return o
}

// statuses returns the errors that an operation may answer.
func (r *route) statuses() []int {
	all := append([]int{http.StatusBadRequest, http.StatusInternalServerError, http.StatusServiceUnavailable}, r.errors...)
	if !r.open {
		all = append(all, http.StatusUnauthorized)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r result) describe() map[string]any {
	d := map[string]any{"description": r.description}
	if len(r.types) > 0 {
		d["content"] = r.content.describe()
	}
	headers := map[string]any{}
	for _, p := range r.header {
		headers[p.name] = map[string]any{"description": p.description, "schema": p.schema}
	}
	if len(headers) > 0 {
		d["headers"] = headers
	}
	return d
}

func (c content) describe() map[string]any {
	types := map[string]any{}
	for media, s := range c.types {
		types[media] = map[string]any{"schema": s}
	}
	return types
}

func errorSchema() schema {
	return object("Why a request was refused. Nothing was changed, unless the message says how much.",
		"message", text("The reason, and what to do."),
		"field?", text("The field of the document, the parameter of the query, or the header that it is about, such as queue.limit."),
		"problems?", array(ref("Problem")))
}

// ownSchemas returns the schemas of bodies that are no documents.
func ownSchemas() map[string]schema {
	return map[string]schema{
		"Change": changeSchema(), "NewKey": newKeySchema(), "CreatedKey": createdKeySchema(),
		"Node": nodeSchema(), "Loaded": loadedSchema(), "Registration": registrationSchema(), "Registered": registeredSchema(), "PoolOfModel": poolOfModelSchema(),
		"Problem": object("Something that is wrong in the fleet, or that may be.",
			"kind", text("Kind of the problem, as in the metric colonnade_problems."),
			"severity", schema{"type": "string", "enum": []string{"error", "warning"}},
			"document?", text("Key of the document or node that it is about."),
			"text", text("Description."), "effect?", text("Consequence for clients."), "action?", text("Steps for an operator.")),
	}
}
