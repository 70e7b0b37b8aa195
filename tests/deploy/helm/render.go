// Renders a chart's templates as Helm does, with what charts here use of it: text/template, sprig, include, and toJson.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run render.go CHART RELEASE NAMESPACE <OBJECTS.json
//
// OBJECTS.json has "Values" and "Chart". Prints each file's result in the order of their names.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: render.go CHART RELEASE NAMESPACE <OBJECTS.json"))
	}
	objects := map[string]interface{}{}
	fail(json.NewDecoder(os.Stdin).Decode(&objects))
	objects["Release"] = map[string]interface{}{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm"}

	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all.Funcs(functions)

	files, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	fail(err)
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		fail(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out strings.Builder
		fail(all.ExecuteTemplate(&out, name, objects))
		if strings.TrimSpace(out.String()) != "" {
			fmt.Printf("---\n# %s\n%s\n", name, strings.TrimSpace(out.String()))
		}
	}
}
