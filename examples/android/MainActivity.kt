// A recurrent model in LiteRT's CompiledModel on Android, call after call.
//
//   jfuse convert saved_model/ -o app/src/main/assets/model.tflite --target compiled-model --batch 1
//
// build.gradle.kts: implementation("com.google.ai.edge.litert:litert:2.+")
package com.example.recurrent

import android.app.Activity
import android.os.Bundle
import android.util.Log
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import kotlin.concurrent.thread

class MainActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        thread { run() }
    }

    private fun run() {
        // Accelerator.GPU needs a file for --target litert-gpu, whose states go in and out (--state io).
        val options = CompiledModel.Options(Accelerator.CPU)
        CompiledModel.create(assets, "model.tflite", options).use { model ->
            val inputs = model.createInputBuffers()
            val outputs = model.createOutputBuffers()
            repeat(3) { call ->
                // As many numbers as the input has: here 8 steps of 4 features. States in variables go on by themselves.
                inputs[0].writeFloat(FloatArray(8 * 4) { Math.random().toFloat() })
                model.run(inputs, outputs)
                Log.i("recurrent", "call $call: ${outputs[0].readFloat().take(8)}")
            }
        }
    }
}
