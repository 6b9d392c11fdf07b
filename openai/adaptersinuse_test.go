package openai_test

import (
	"slices"
	"strings"
	"testing"

	"colonnade/openai"
)

// The adapters in use are those of the newest series, of each rank, running or waiting; lines that are not well formed are left out.
func TestAdaptersInUse(t *testing.T) {
	t.Parallel()
	f := func(metrics string, want ...string) {
		t.Helper()
		if got := openai.AdaptersInUse([]byte(metrics)); !slices.Equal(got, want) {
			t.Errorf("%.200q: %q, want %q", metrics, got, want)
		}
	}
	const line = `vllm:lora_requests_info{max_lora="4",running_lora_adapters="`
	f("")
	f("# TYPE vllm:lora_requests_info gauge\nvllm:num_requests_running{model_name=\"base\"} 1\n")
	f(line+`b, a",waiting_lora_adapters="c"} 1.7e+09`+"\n", "a", "b", "c")
	f(line + `",waiting_lora_adapters=""} 1.7e+09`)
	f(line+`old",waiting_lora_adapters=""} 1700000000`+"\n"+line+`new",waiting_lora_adapters=""} 1700000100`+"\n"+line+`rank,new",waiting_lora_adapters=""} 1700000095`, "new", "rank")
	f(line+`a\"b\\c",waiting_lora_adapters=""} 1`, `a"b\c`)
	f(line+`a"`+"\n"+line+"\n"+line+`x",waiting_lora_adapters=""} soon`+"\n"+line+`b",waiting_lora_adapters=""} 1`, "b")
	f(line + strings.Repeat("a", 1<<20) + `",waiting_lora_adapters=""} 1`)
	f("vllm:lora_requests_info{")
}

func FuzzAdaptersInUse(f *testing.F) {
	f.Add([]byte(`vllm:lora_requests_info{max_lora="4",running_lora_adapters="a\\",waiting_lora_adapters=""} 1`))
	f.Fuzz(func(t *testing.T, metrics []byte) {
		if names := openai.AdaptersInUse(metrics); names == nil || !slices.IsSorted(names) {
			t.Errorf("%q", names)
		}
	})
}
