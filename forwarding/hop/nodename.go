package hop

import (
	"strings"

	"colonnade/internal/ascii"
)

// NodeNamesProtocol is the first protocol between nodes in which the audience of a token, and the servers that it has visited, are named
// COLO/NODE ([NodeName]). Names of nodes are unique in a colo only. A sender uses the name of the node alone if the receiver's protocol is
// older; a receiver accepts both.
const NodeNamesProtocol = 4

// NodeName returns the name of a colo server that is unique in the fleet: COLO/NODE. Neither name contains a slash.
func NodeName(colo, node string) string { return colo + "/" + node }

// SplitNodeName returns the parts of a name: of COLO/NODE both, and of NODE alone an empty colo.
func SplitNodeName(name string) (colo, node string) {
	colo, node, ok := strings.Cut(name, "/")
	if !ok {
		return "", name
	}
	return colo, node
}

// maxName is the length of the longest name of a colo or a node, in bytes.
const maxName = 128

// isPlainName reports whether s can be the name of a colo or of a node.
func isPlainName(s string) bool {
	if s == "" || len(s) > maxName || !ascii.IsAlphanumeric(s[0]) {
		return false
	}
	for i := range len(s) {
		if !ascii.IsAlphanumeric(s[i]) && strings.IndexByte("._:@+-", s[i]) < 0 {
			return false
		}
	}
	return true
}

// IsNodeName reports whether s is COLO/NODE.
func IsNodeName(s string) bool {
	colo, node := SplitNodeName(s)
	return isPlainName(colo) && isPlainName(node)
}
