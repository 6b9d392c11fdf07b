// Package archtest has no code but its tests, which keep the tree as it was drawn:
//
//   - imports: arrows between packages point down only, and each third-party module stays where the table allows it
//     (table_test.go, imports_test.go);
//   - layout: inside a package, at most a quarter of the references between its files point upward (layout_test.go);
//   - bounds: interfaces, functions main and files stay few and short (bounds_test.go);
//   - language: comments, pages, strings and names use the words of the glossary in CONTRIBUTING.md (language_test.go);
//   - literals: numbers of errors and reasons are constants (literals_test.go).
//
// Test code may import any package. A new package gets a row in the table, with the reason for what it may import.
package archtest
