package hop

// maxSession bounds the name of a session, in bytes.
const maxSession = 256

// IsSession reports whether a value of [HeaderSessionAffinity] names a session: 1 to 256 visible ASCII characters.
func IsSession[T string | []byte](name T) bool {
	for i := range min(len(name), maxSession) {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxSession
}
