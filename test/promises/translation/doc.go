// Package translation has the end-to-end tests of clients of Anthropic's Messages API that are served by engines which have only chat
// completions.
package translation
