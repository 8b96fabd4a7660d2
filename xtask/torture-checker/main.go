// Checks the history of a torture run for linearizability with porcupine, one register at a time.
//
// Input: a file with one JSON object per line. Lines with the type "operation" are operations on a register. Lines with
// the type "initial" give a register its first value. Other lines are skipped. Output: one JSON object for each
// register that is not linearizable or whose check timed out, then one with the totals. Exit code: 0 all linearizable,
// 1 not.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// One line of a history. A value of 0 means that the register has no record.
type line struct {
	Type     string `json:"type"`
	Register string `json:"register"`
	Client   int    `json:"client"`
	// write, delete, insert, swap, refuse or read.
	Action string `json:"action"`
	// Nanoseconds since the start of the run. Without a return, the operation may take effect at any later time.
	Call   int64  `json:"call_ns"`
	Return *int64 `json:"return_ns"`
	// ok, failed (by its prerequisite), refused or unknown.
	Outcome string `json:"outcome"`
	// The value that a swap expects, the value that is written, and the value that a read returned.
	Expected uint32 `json:"expected"`
	Value    uint32 `json:"value"`
}

type output struct {
	outcome string
	value   uint32
}

// step returns whether an operation can have its outcome in a state, and the state after it.
func step(state, input, result any) (bool, any) {
	now, operation, seen := state.(uint32), input.(line), result.(output)
	if operation.Action == "read" {
		return seen.value == now, now
	}
	holds, next := true, operation.Value
	switch operation.Action {
	case "write":
	case "delete":
		holds, next = now != 0, 0
	case "insert":
		holds = now == 0
	case "swap":
		holds = now == operation.Expected
	case "refuse":
		holds = false
	default:
		return false, now
	}
	switch seen.outcome {
	case "ok":
		return holds, next
	case "failed":
		return !holds, now
	case "refused":
		return true, now
	case "unknown":
		if holds {
			return true, next
		}
		return true, now
	}
	return false, now
}

func model(initial uint32) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: step,
		DescribeOperation: func(input, result any) string {
			operation, seen := input.(line), result.(output)
			return fmt.Sprintf("%s(expects %d, writes %d) = %s %d",
				operation.Action, operation.Expected, operation.Value, seen.outcome, seen.value)
		},
		DescribeState: func(state any) string { return fmt.Sprint(state) },
	}
}

func operation(from line) porcupine.Operation {
	end := int64(math.MaxInt64)
	if from.Return != nil && from.Outcome != "unknown" {
		end = *from.Return
	}
	return porcupine.Operation{
		ClientId: from.Client, Input: from, Call: from.Call, Output: output{from.Outcome, from.Value}, Return: end,
	}
}

func read(path string) (map[string][]porcupine.Operation, map[string]uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	histories, initial := map[string][]porcupine.Operation{}, map[string]uint32{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		var from line
		if err := json.Unmarshal(lines.Bytes(), &from); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		switch from.Type {
		case "initial":
			initial[from.Register] = from.Value
		case "operation":
			histories[from.Register] = append(histories[from.Register], operation(from))
		}
	}
	return histories, initial, lines.Err()
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "time limit for one register; an unfinished check is a failure")
	drawings := flag.String("drawings", "", "folder for a drawing of each register that is not linearizable")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: torture-checker [-timeout 1m] [-drawings DIR] HISTORY")
		os.Exit(2)
	}
	histories, initial, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read the history:", err)
		os.Exit(2)
	}
	registers := make([]string, 0, len(histories))
	for register := range histories {
		registers = append(registers, register)
	}
	sort.Strings(registers)
	results := json.NewEncoder(os.Stdout)
	operations, bad := 0, 0
	for place, register := range registers {
		operations += len(histories[register])
		model := model(initial[register])
		result, info := porcupine.CheckOperationsVerbose(model, histories[register], *timeout)
		if result == porcupine.Ok {
			continue
		}
		bad++
		_ = results.Encode(map[string]any{"register": register, "result": result})
		if *drawings != "" {
			_ = porcupine.VisualizePath(model, info, filepath.Join(*drawings, fmt.Sprintf("register-%d.html", place)))
		}
	}
	_ = results.Encode(map[string]any{"registers": len(registers), "operations": operations, "violations": bad})
	if bad > 0 {
		os.Exit(1)
	}
}
