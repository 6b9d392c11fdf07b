package main

import (
	"strings"
	"testing"

	"colonnade/node"
)

func TestConfigStatusShowsVersions(t *testing.T) {
	s := startEtcd(t)
	admins := func(nodes ...node.ConfigState) string {
		var all []string
		for _, n := range nodes {
			all = append(all, configured(n).register(t, s, "servers/ams/"+n.Node))
		}
		return strings.Join(all, ",")
	}
	admins(node.ConfigState{Node: "ams-1", Version: "v1.4.0"}, node.ConfigState{Node: "ams-2", Version: "v1.4.0"})
	run(t, "", "config", "status").fail(t, "version v1.4.0: 2 nodes\n")
	admins(node.ConfigState{Node: "ams-3", Version: "v1.5.0"})
	put(t, s, map[string]string{"servers/fra/old": `{"address":"127.0.0.1:1","boot":"x","version":"v1.3.9"}`})
	run(t, "", "config", "status").fail(t, "version v1.3.9: old\n", "version v1.4.0: ams-1, ams-2\n", "version v1.5.0: ams-3\n")
	run(t, "", "config", "status", "-json").fail(t, `"version": "v1.5.0"`)
}
