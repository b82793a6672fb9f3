// Made by jfuse. The operators of the model, for tflite-micro.
#ifndef G_OPS_H_
#define G_OPS_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

constexpr int g_op_count = 7;

template <unsigned int kCount>
TfLiteStatus g_add_ops(tflite::MicroMutableOpResolver<kCount>& resolver) {
  TF_LITE_ENSURE_STATUS(resolver.AddFullyConnected());
  TF_LITE_ENSURE_STATUS(resolver.AddPad());
  TF_LITE_ENSURE_STATUS(resolver.AddQuantize());
  TF_LITE_ENSURE_STATUS(resolver.AddSoftmax());
  TF_LITE_ENSURE_STATUS(resolver.AddStridedSlice());
  TF_LITE_ENSURE_STATUS(resolver.AddSub());
  TF_LITE_ENSURE_STATUS(resolver.AddUnidirectionalSequenceLSTM());
  return kTfLiteOk;
}

#endif  // G_OPS_H_
