// Runs keywords.tflite on a microcontroller with tflite-micro. README.md says how to build it.

#include <cstdint>
#include <cstdio>

#include "keywords.h"
#include "keywords_ops.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

// The arena was counted on a 64-bit machine; a controller with pointers of 32 bits needs less.
alignas(16) uint8_t arena[keywords_arena_bytes];

int Fail(const char* what) {
  std::printf("%s failed\n", what);
  return 1;
}

}  // namespace

int main() {
  tflite::InitializeTarget();
  const tflite::Model* model = tflite::GetModel(keywords);
  if (model->version() != TFLITE_SCHEMA_VERSION) return Fail("the schema version");

  tflite::MicroMutableOpResolver<keywords_op_count> resolver;
  if (keywords_add_ops(resolver) != kTfLiteOk) return Fail("adding operators");

  tflite::MicroInterpreter interpreter(model, resolver, arena, sizeof(arena));
  if (interpreter.AllocateTensors() != kTfLiteOk) return Fail("AllocateTensors");

  TfLiteTensor* input = interpreter.input(0);  // f32[1,49,10,1]
  const int coefficients = input->bytes / sizeof(float);
  for (int call = 0; call < 3; ++call) {  // the file answers each call anew: its LSTM starts from zero
    for (int i = 0; i < coefficients; ++i) input->data.f[i] = 0.01f * (i % 100);
    if (interpreter.Invoke() != kTfLiteOk) return Fail("Invoke");
    const TfLiteTensor* output = interpreter.output(0);  // f32[1,4]
    std::printf("%f %f %f %f\n", static_cast<double>(output->data.f[0]), static_cast<double>(output->data.f[1]),
                static_cast<double>(output->data.f[2]), static_cast<double>(output->data.f[3]));
  }
  return 0;
}
