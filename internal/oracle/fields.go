package oracle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"colonnade/analytics"
)

// fieldProblems reports fields of events that the schema does not have in their kind and phase: docs/events.md says which have which.
func (a *Events) fieldProblems() (found []string) {
	for _, events := range []map[string]analytics.Event{a.Begins, a.Ends} {
		for _, e := range events {
			for _, field := range foreignFields(&e) {
				found = append(found, fmt.Sprintf("events: request %s: the %s of kind %s has the field %s, which the schema does not have there", e.RequestID, e.Phase, e.Kind, field))
			}
		}
	}
	return found
}

// foreignFields returns the fields of an event that are set, though the tag on says that events of its kind and phase do not have them.
func foreignFields(e *analytics.Event) (found []string) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		on := strings.Fields(field.Tag.Get("on"))
		kinds := slices.DeleteFunc(slices.Clone(on), func(s string) bool { return s == string(analytics.PhaseEnd) })
		switch {
		case v.Field(i).IsZero():
		case len(kinds) > 0 && !slices.Contains(kinds, string(e.Kind)),
			len(kinds) < len(on) && e.Phase != analytics.PhaseEnd:
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found = append(found, name)
		}
	}
	return found
}
