package figures_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colonnade/discovery/engines/figures"
)

// text is the known figures of f.
func text(f figures.Figures) string {
	var parts []string
	add := func(name string, v figures.Value) {
		if v.Known {
			parts = append(parts, fmt.Sprintf("%s %.6g", name, v.N))
		}
	}
	add("running", f.Running)
	add("waiting", f.Waiting)
	add("kv", f.KVCache)
	add("hits", f.PrefixHits)
	add("queries", f.PrefixQueries)
	add("rate", f.PrefixRate)
	if f.Adapters != nil {
		parts = append(parts, fmt.Sprintf("adapters %q", f.Adapters))
	}
	return strings.Join(parts, ", ")
}

// Each page is as that engine writes it. A figure that a page does not have is not known.
func TestPagesOfEngines(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"vllm-v0":           "running 8, waiting 2, kv 0.4213",
		"vllm-v1-0.9":       `running 3, waiting 0, kv 0.42, hits 310, queries 1000, adapters ["a" "b"]`,
		"vllm-v1-dp2":       "running 21, waiting 4, kv 0.97, hits 2.5e+06, queries 1e+07",
		"sglang-dp2":        "running 11, waiting 4, kv 0.31, hits 2000, queries 8000, rate 0.0075",
		"sglang-underscore": "running 2, waiting 1, kv 0.5, rate 0.25",
		"tgi":               "running 14, waiting 5",
		"tei":               "waiting 12",
		"llamacpp-2024":     "running 2, waiting 0, kv 0.12793",
		"llamacpp-2025":     "running 4, waiting 46",
		"triton":            "waiting 3",
		"triton-trtllm":     "running 8, waiting 3, kv 0.25",
		"triton-vllm":       "running 6, waiting 2, kv 0.25",
		"trtllm-serve":      "running 10, waiting 1, kv 0.6, rate 0.2",
	} {
		content, err := os.ReadFile(filepath.Join("testdata", page+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		f := figures.Parse(content)
		if got := text(f); got != want || !f.Known() {
			t.Errorf("%s: %s, want %s", page, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	f := func(page, want string) {
		t.Helper()
		got := figures.Parse([]byte(page))
		if text(got) != want || got.Known() != (want != "") {
			t.Errorf("%.200q: %q, want %q", page, text(got), want)
		}
	}
	const running = "vllm:num_requests_running"
	f("", "")
	f("\n\n# "+running+" 3\n<html>", "")
	f(running+" 3", "running 3")
	f(running+" 3 1712345678901\r\n", "running 3")
	f("  "+running+"{} \t3\n", "running 3")
	f("ray_vllm_num_requests_running{a=\"1\"} 3\n", "running 3")
	f(running+"_by_reason 3\n"+running+"\n"+running+"{\n"+running+"{a=\"}\" 3\n"+running+" x\n"+running+" NaN\n"+running+" -1\n"+running+" +Inf\n", "")
	f(running+"{a=\"}\\\"{\"} 3\n"+running+"{a=\"b\"} 4\n", "running 7")
	f(running+"{b=\"2\",a=\"1\",pid=\"7\"} 3\n"+running+"{a=\"1\",b=\"2\",pid=\"8\"} 4\n", "running 4")
	f("vllm:kv_cache_usage_perc 42\nvllm:gpu_cache_usage_perc 0.4", "kv 0.4") // a percentage is no share
	f("vllm:prefix_cache_hits_total 5\n", "")
	f("vllm:prefix_cache_hits_total 5\nvllm:prefix_cache_queries_total 4\n", "")
	f("vllm:prefix_cache_hits_total 0\nvllm:prefix_cache_queries_total 0\n", "hits 0, queries 0")
	f(running+"{a=\""+strings.Repeat("x", 1<<17)+"\"} 3\n"+running+" 4\n", "running 4")
	f(`nv_trt_llm_request_metrics{request_type="active"} 3`, "")
	f(`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"} 3`+"\n"+`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 0`, "")
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, "%s{engine=\"%d\"} 1\n", running, i)
	}
	f(many.String(), "running 4096")
}

// The adapters in use are those of the newest series, of each rank, running or waiting; lines that are not well formed are left out.
func TestAdapters(t *testing.T) {
	t.Parallel()
	f := func(page string, want ...string) {
		t.Helper()
		if got := figures.Parse([]byte(page)).Adapters; !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%.200q: %q, want %q", page, got, want)
		}
	}
	const line = `vllm:lora_requests_info{max_lora="4",running_lora_adapters="`
	f("")
	f("# TYPE vllm:lora_requests_info gauge\nvllm:num_requests_running{model_name=\"base\"} 1\n")
	f(line+`b, a",waiting_lora_adapters="c"} 1.7e+09`+"\n", "a", "b", "c")
	f(line+`",waiting_lora_adapters=""} 1.7e+09`, []string{}...)
	f(line+`old",waiting_lora_adapters=""} 1700000000`+"\n"+line+`new",waiting_lora_adapters=""} 1700000100`+"\n"+line+`rank,new",waiting_lora_adapters=""} 1700000095`, "new", "rank")
	f(line+`a\"b\\c",waiting_lora_adapters=""} 1`, `a"b\c`)
	f(line+`a"`+"\n"+line+"\n"+line+`x",waiting_lora_adapters=""} soon`+"\n"+line+`b",waiting_lora_adapters=""} 1`, "b")
	f(line + strings.Repeat("a", 1<<20) + `",waiting_lora_adapters=""} 1`)
	f("vllm:lora_requests_info{")
}

// FuzzReader: whatever a page has, figures are counts and shares, and do not depend on the pieces in which the page comes.
func FuzzReader(f *testing.F) {
	pages, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(pages) == 0 {
		f.Fatal("no pages", err)
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, 7)
	}
	f.Add([]byte(`vllm:lora_requests_info{max_lora="4",running_lora_adapters="a\\",waiting_lora_adapters=""} 1`), 1)
	f.Add([]byte("vllm:num_requests_running{a=\"\\\"} 1\nvllm:num_requests_running 1e300"), 3)
	f.Fuzz(func(t *testing.T, page []byte, size int) {
		whole := figures.Parse(page)
		size = 1 + max(size, 0)%1024
		var r figures.Reader
		for piece := range slices.Chunk(page, size) {
			piece = bytes.Clone(piece)
			if n, err := r.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
			clear(piece) // the caller may use it again
		}
		if pieces := r.Figures(); text(pieces) != text(whole) {
			t.Errorf("in pieces of %d: %s, and whole: %s", size, text(pieces), text(whole))
		}
		for _, v := range []figures.Value{whole.Running, whole.Waiting, whole.PrefixHits, whole.PrefixQueries} {
			if !(v.N >= 0) || math.IsInf(v.N, 0) || !v.Known && v.N != 0 {
				t.Errorf("%+v", whole)
			}
		}
		for _, v := range []figures.Value{whole.KVCache, whole.PrefixRate} {
			if !(v.N >= 0 && v.N <= 1) {
				t.Errorf("%+v", whole)
			}
		}
		if !slices.IsSorted(whole.Adapters) || whole.PrefixHits.N > whole.PrefixQueries.N {
			t.Errorf("%+v", whole)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	page, err := os.ReadFile("testdata/vllm-v1-dp2.txt")
	if err != nil {
		b.Fatal(err)
	}
	page = append(page, bytes.Repeat([]byte(`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="qwen"} 12.0`+"\n"), 2000)...)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		figures.Parse(page)
	}
}
