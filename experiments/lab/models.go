package lab

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed models
var models embed.FS

// writeModels puts the practice spec's target and draft model below home, as
// checkpoints lie on a host: configuration, tokenizer, weights (a few bytes of
// them). A model that is there already stays as it is.
func writeModels(home string) error {
	for _, name := range []string{"target", "draft"} {
		dir := filepath.Join(home, "practice", name)
		if _, err := os.Stat(dir); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("practice models: %w", err)
		}
		if err := writeModel(name, dir); err != nil {
			return fmt.Errorf("practice models: %w", err)
		}
	}
	return nil
}

func writeModel(name, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+name+"-") // a start that is killed leaves no half a model
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	files, err := models.ReadDir(path.Join("models", name))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := models.ReadFile(path.Join("models", name, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(tmp, f.Name()), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "model.safetensors"), weights(), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// weights is a safetensors file with one small tensor of zeros.
func weights() []byte {
	const shape = `{"model.norm.weight":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}}`
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(shape)))
	return append(append(out, shape...), make([]byte, 16)...)
}
