package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics/sinks"
)

// connConfig returns the settings of connections. The environment variables of PostgreSQL (PGUSER, PGPASSWORD, PGSSLROOTCERT, …) and
// ~/.pgpass hold for what the URL does not say, as for its own programs.
func connConfig(spec *sinks.Spec) (*pgx.ConnConfig, error) {
	if spec.URL.Host == "" {
		return nil, fmt.Errorf("%s: the URL has no host; write for example %s", spec.URL, spec.Scheme.Example)
	}
	if strings.Trim(spec.URL.Path, "/") == "" {
		return nil, fmt.Errorf("%s: the URL names no database; write for example %s", spec.URL, spec.Scheme.Example)
	}
	query := url.Values{"connect_timeout": {fmt.Sprint(int(connectTimeout.Seconds()))}, "application_name": {"colonnade"}}
	if mode := spec.Param("sslmode", ""); mode != "" {
		modes := []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
		if !slices.Contains(modes, mode) {
			return nil, fmt.Errorf("sslmode=%s: must be one of %s", mode, strings.Join(modes, ", "))
		}
		query.Set("sslmode", mode)
	}
	if ca := spec.Param("sslrootcert", ""); ca != "" {
		query.Set("sslrootcert", ca)
	}
	u := *spec.URL
	u.RawQuery = query.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write for example %s", spec.URL, errors.Unwrap(err), spec.Scheme.Example)
	}
	return config, nil
}

// table is the name of a table, with its schema or without.
type table struct{ schema, name string }

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func parseTable(setting string) (table, error) {
	var t table
	schema, name, qualified := strings.Cut(setting, ".")
	if qualified {
		t = table{schema, name}
	} else {
		t = table{name: setting}
	}
	if !identifier.MatchString(t.name) || qualified && !identifier.MatchString(t.schema) {
		return table{}, fmt.Errorf("table=%s: must be a name of lower-case letters, digits and underscores, such as colonnade_events or billing.events", setting)
	}
	return t, nil
}

// String returns the name as SQL has it.
func (t table) String() string {
	if t.schema == "" {
		return pgx.Identifier{t.name}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name}.Sanitize()
}

// setting returns the name as the setting has it.
func (t table) setting() string {
	if t.schema == "" {
		return "table=" + t.name
	}
	return "table=" + t.schema + "." + t.name
}
