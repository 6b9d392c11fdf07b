package columns

import (
	"fmt"
	"strconv"
	"strings"

	"colonnade/analytics"
)

// Key returns the names of the columns that together are unique.
func Key() []string { return []string{"event_id", "phase", "time"} }

const comment = "Events of Colonnade, schema "

// Comment returns the comment of a table: it has the version of the columns.
func Comment() string { return comment + strconv.Itoa(analytics.SchemaVersion) }

// Table is a table of events as it was found in a store.
type Table struct {
	Comment string
	Columns map[string]string // name → type in the store
}

// version returns the version that made the table, or 0 if Colonnade has not made it.
func (t Table) version() int {
	v, _ := strconv.Atoi(strings.TrimPrefix(t.Comment, comment))
	return v
}

// Missing returns the columns that an older version did not have, which are to be added. It is an error if the table has columns of
// other types, or lacks some without being of an older version: another program has made it, or changed it. typeOf returns the type that
// the store calls a column's.
func (t Table) Missing(typeOf func(Column) string) ([]Column, error) { return t.missing(all, typeOf) }

func (t Table) missing(all []Column, typeOf func(Column) string) ([]Column, error) {
	var missing []Column
	var lacks, differs []string
	for _, c := range all {
		have, found := t.Columns[c.Name]
		switch {
		case found && have != typeOf(c):
			differs = append(differs, fmt.Sprintf("%s is %s and must be %s", c.Name, have, typeOf(c)))
		case found:
		case t.version() > 0 && t.version() < c.Since:
			missing = append(missing, c)
		default:
			lacks = append(lacks, c.Name)
		}
	}
	var wrong []string
	if len(lacks) > 0 {
		wrong = append(wrong, "columns are missing: "+few(lacks))
	}
	if len(differs) > 0 {
		wrong = append(wrong, "columns have other types: "+few(differs))
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("it has other columns than a table of events: %s", strings.Join(wrong, "; "))
	}
	return missing, nil
}

// few joins words, at most five of them.
func few(words []string) string {
	const most = 5
	if len(words) > most {
		words = append(words[:most:most], fmt.Sprintf("and %d others", len(words)-most))
	}
	return strings.Join(words, ", ")
}

// Older reports whether an older version made the table.
func (t Table) Older() bool { return t.version() > 0 && t.version() < analytics.SchemaVersion }
