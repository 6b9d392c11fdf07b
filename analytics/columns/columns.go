package columns

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"colonnade/analytics"
)

// Type says which values a column has.
type Type string

const (
	Text    Type = "text"    // string
	Texts   Type = "texts"   // []string, empty if the event has none
	Integer Type = "integer" // int64
	Number  Type = "number"  // float64; durations are milliseconds
	Flag    Type = "flag"    // bool
	Time    Type = "time"    // time.Time, cut to microseconds, as most stores have them
)

// Column is one column of a table of events.
type Column struct {
	Name     string // as in the JSON of an event
	Type     Type
	Optional bool // absent from the JSON of an event that does not have it, and NULL in a table
	Since    int  // the first version of the schema that has it
	field    int  // of analytics.Event
}

// all has the fields of analytics.Event in their order.
var all = list(reflect.TypeFor[analytics.Event]())

// All returns the columns. The caller must not change them.
func All() []Column { return all }

// Names returns the names of columns.
func Names(of []Column) []string {
	names := make([]string, len(of))
	for i, c := range of {
		names[i] = c.Name
	}
	return names
}

func list(event reflect.Type) []Column {
	var columns []Column
	for i := range event.NumField() {
		field := event.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		c := Column{Name: name, Type: typeOf(field.Type), Since: 1, field: i}
		if since, err := strconv.Atoi(field.Tag.Get("since")); err == nil {
			c.Since = since
		}
		c.Optional = strings.Contains(options, "omitempty") && c.Type != Flag && c.Type != Texts
		columns = append(columns, c)
	}
	return columns
}

func typeOf(field reflect.Type) Type {
	switch field {
	case reflect.TypeFor[time.Time]():
		return Time
	case reflect.TypeFor[analytics.Milliseconds](), reflect.TypeFor[float64]():
		return Number
	case reflect.TypeFor[bool]():
		return Flag
	case reflect.TypeFor[[]string]():
		return Texts
	}
	if field.Kind() == reflect.String {
		return Text
	}
	return Integer
}

// Value returns the value of an event in the column, of the type that Type says, or nil if the event does not have it. Zero bytes in
// texts are replaced, since PostgreSQL has none.
func (c Column) Value(e *analytics.Event) any {
	v := reflect.ValueOf(e).Elem().Field(c.field)
	if c.Optional && v.IsZero() {
		return nil
	}
	switch c.Type {
	case Text:
		return withoutZeros(v.String())
	case Texts:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = withoutZeros(v.Index(i).String())
		}
		return texts
	case Number:
		if d, ok := v.Interface().(analytics.Milliseconds); ok {
			return float64(d.Std().Round(time.Microsecond).Microseconds()) / 1e3
		}
		return v.Float()
	case Flag:
		return v.Bool()
	case Time:
		return v.Interface().(time.Time).UTC().Truncate(time.Microsecond)
	}
	return v.Int()
}

func withoutZeros(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
